// The tensors that one launch computes with: its inputs, and the variables' own
// tensors where an input is a handle.
#ifndef TF_DISC_CC_OPS_LAUNCH_INPUTS_H_
#define TF_DISC_CC_OPS_LAUNCH_INPUTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cc/compile/signature.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_disc {

// While this lives, no input is written: a variable's tensor is held by a
// reference, which makes every dense update take a new buffer, or, in
// copy-on-read mode, where scatter updates write in place, by the variable's
// shared lock, as TensorFlow's own gather does (DESIGN 2.4). So it must not
// outlive the kernel's run, and nothing may wait on another op meanwhile.
class LaunchInputs {
 public:
  LaunchInputs() = default;
  ~LaunchInputs();
  LaunchInputs(const LaunchInputs&) = delete;
  LaunchInputs& operator=(const LaunchInputs&) = delete;

  // Call once. FailedPrecondition names the variable that does not exist or has
  // no value: TensorFlow's own op then says so in its own words.
  absl::Status Resolve(tensorflow::OpKernelContext* context,
                       const SignatureRules& rules);

  absl::Span<const tensorflow::Tensor* const> tensors() const {
    return tensors_;
  }

 private:
  absl::Status ResolveVariables(tensorflow::OpKernelContext* context,
                                absl::Span<const int> inputs);

  absl::InlinedVector<const tensorflow::Tensor*, 16> tensors_;
  // Of resource inputs only.
  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;
  std::vector<tensorflow::Tensor> references_;
  std::vector<tensorflow::Var*> locked_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_LAUNCH_INPUTS_H_
