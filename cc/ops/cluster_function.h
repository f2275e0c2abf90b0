// Runs the outlined function of a cluster in TensorFlow: the way back from
// everything that a kernel cannot do.
#ifndef TF_DISC_CC_OPS_CLUSTER_FUNCTION_H_
#define TF_DISC_CC_OPS_CLUSTER_FUNCTION_H_

#include <map>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_disc {

// One DiscLaunch node's. Thread-safe.
class ClusterFunction {
 public:
  // `fused`: the same function after TensorFlow's own fusions, or without a
  // name.
  ClusterFunction(tensorflow::NameAttrList function,
                  tensorflow::NameAttrList fused)
      : function_(std::move(function)), fused_(std::move(fused)) {}

  // Runs the function on the kernel's inputs, sets the kernel's outputs or
  // status (TensorFlow's own, unchanged) and calls `done`, perhaps from another
  // thread. No output of the kernel may be set before. FailedPrecondition as
  // the kernel's status where it runs without a function library.
  void Run(tensorflow::OpKernelContext* context,
           tensorflow::AsyncOpKernel::DoneCallback done);

  // Whether Run would come to run the function. A kernel needs no function; and
  // where TensorFlow's constant folding tries a node there is none.
  bool CanRun(tensorflow::OpKernelContext* context) {
    return context->function_library() != nullptr && Instantiate(context).ok();
  }

  const std::string& name() const { return function_.name(); }

 private:
  struct Instance {
    tensorflow::FunctionLibraryRuntime::Handle handle = 0;
    bool is_multi_device = false;
  };

  // Of the best form that the library takes.
  absl::StatusOr<Instance> Instantiate(tensorflow::OpKernelContext* context);

  const tensorflow::NameAttrList function_;
  const tensorflow::NameAttrList fused_;
  std::mutex mutex_;
  std::map<tensorflow::FunctionLibraryRuntime*, Instance> instances_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_CLUSTER_FUNCTION_H_
