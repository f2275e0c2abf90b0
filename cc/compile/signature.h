// The signature of a launch: what a kernel is compiled for. dtypes, ranks,
// values of constant operands, lengths of length operands, shapes of weights
// and variables, and the dims that the pass proved. Other sizes are no part of
// it.
#ifndef TF_DISC_CC_COMPILE_SIGNATURE_H_
#define TF_DISC_CC_COMPILE_SIGNATURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tf_disc {

enum class InputKind { kTensor, kWeight, kConst, kResource };

// The contract's word for `kind` (docs/contracts.md 3).
const char* InputKindName(InputKind kind);

// One input of a cluster, for one signature.
struct ClusterInput {
  InputKind kind = InputKind::kTensor;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;  // a variable's own
  std::vector<int64_t> dims;   // -1 where it is no part of the signature
  std::vector<int64_t> sizes;  // of the call that asked
  tensorflow::Tensor value;    // kConst; small integer kTensor: hints
};

// What the attributes of one DiscLaunch node say about its inputs. Immutable,
// thread-safe.
class SignatureRules {
 public:
  // The attributes' values. InvalidArgument names the attribute and the index
  // that is out of range.
  static absl::StatusOr<SignatureRules> Make(
      absl::Span<const tensorflow::DataType> types,
      absl::Span<const int32_t> const_operands,
      absl::Span<const int32_t> length_operands,
      absl::Span<const int32_t> weight_operands,
      absl::Span<const tensorflow::PartialTensorShape> input_shapes);

  // OK if a launch with these inputs may run a kernel. `inputs[i]` is the
  // variable's tensor where input i is a handle. FailedPrecondition: a dtype, a
  // rank or a dim is not what the pass was told, or a dtype that kernels lack.
  absl::Status Check(absl::Span<const tensorflow::Tensor* const> inputs) const;

  // Appends bytes that are equal exactly for inputs of equal signature (under
  // the rules of this node). Inputs must have passed Check.
  void AppendKey(absl::Span<const tensorflow::Tensor* const> inputs,
                 std::string* key) const;

  // The signature in full, with the sizes of these inputs.
  std::vector<ClusterInput> Describe(
      absl::Span<const tensorflow::Tensor* const> inputs) const;

  // Elements of the inputs whose sizes may change from call to call: how large
  // this call is among those of its signature. Inputs must have passed Check.
  int64_t VariableElements(
      absl::Span<const tensorflow::Tensor* const> inputs) const;

  int size() const { return static_cast<int>(rules_.size()); }
  InputKind kind(int input) const { return rules_[input].kind; }

 private:
  struct Rule {
    InputKind kind = InputKind::kTensor;
    tensorflow::DataType dtype = tensorflow::DT_INVALID;
    bool fixes_length = false;
    int known_rank = -1;
    std::vector<int64_t> known_dims;  // -1: unknown; empty if the rank is
  };
  std::vector<Rule> rules_;
  std::vector<int> variable_inputs_;
};

// `f32[?, 16], i32[] = 3`, for reports: inputs in order.
std::string DescribeSignature(absl::Span<const ClusterInput> inputs);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_SIGNATURE_H_
