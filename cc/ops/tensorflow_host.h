// A run's surroundings inside a TensorFlow kernel: the device's intra-op pool,
// the block pool's memory, TensorFlow's profiler.
#ifndef TF_DISC_CC_OPS_TENSORFLOW_HOST_H_
#define TF_DISC_CC_OPS_TENSORFLOW_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cc/runtime/host.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_disc {

// The disc_dtype of a TensorFlow type; 0 for a type that kernels do not handle.
int DiscDtype(tensorflow::DataType dtype);

// True if TensorFlow allocated the tensor's buffer: only then does a reference
// to it keep everyone from writing it in place.
bool OwnsMemory(const tensorflow::Tensor& tensor);

class TensorFlowHost : public Host {
 public:
  // Both outlive this object. `inputs` as in LaunchInputs::tensors.
  TensorFlowHost(tensorflow::OpKernelContext* context,
                 absl::Span<const tensorflow::Tensor* const> inputs);
  ~TensorFlowHost() override;

  int NumThreads() const override;
  void Schedule(std::function<void()> fn) override;
  absl::StatusOr<void*> AllocateOutput(int index, disc_dtype dtype,
                                       absl::Span<const int64_t> dims) override;
  absl::StatusOr<void*> AllocateTemporary(int64_t bytes) override;
  std::unique_ptr<BufferHold> HoldInput(int index) override;
  bool IsTracing() const override;
  int64_t TaskBegin(const char* name) override;
  void TaskEnd(int64_t token) override;

  // After a run that succeeded: makes the outputs the kernel's. The only place
  // that sets an output, so that a fallback finds none set. Internal if the run
  // left one out (then none is set).
  absl::Status HandOverOutputs();

 private:
  // Whether the pool serves this launch: it is not switched off, and nobody
  // counts what TensorFlow allocates.
  const bool uses_pool_;
  tensorflow::OpKernelContext* const context_;
  const absl::Span<const tensorflow::Tensor* const> inputs_;
  tensorflow::thread::ThreadPool* const pool_;
  struct Output {
    tensorflow::Tensor tensor;
    // A default Tensor passes for an initialised one without elements.
    bool is_made = false;
  };
  absl::InlinedVector<Output, 4> outputs_;
  absl::InlinedVector<void*, 2> blocks_;  // of the pool
  absl::InlinedVector<tensorflow::Tensor, 2> temporaries_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_TENSORFLOW_HOST_H_
