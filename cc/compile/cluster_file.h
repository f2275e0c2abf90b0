// Writes the cluster file: what the compiler is given (docs/contracts.md 3).
#ifndef TF_DISC_CC_COMPILE_CLUSTER_FILE_H_
#define TF_DISC_CC_COMPILE_CLUSTER_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cc/compile/signature.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/op.h"

namespace tf_disc {

// A node of the function with this attribute keeps f32 inputs of its products
// under precision=bf16 (options f32_ops and f32_nodes; the pass sets it). The
// one attribute beginning with `_` that the file has.
inline constexpr char kKeepsF32[] = "_tf_disc_f32";

struct ClusterFile {
  std::string json;  // the cluster file
  // The same without sizes and with numbers for names: equal for clusters that
  // the same kernel serves.
  std::string key_json;
};

// `inputs` are the function's arguments in order. Default attributes are filled
// in, control inputs and other attributes that begin with `_` left out. Errors
// name the node: NotFound for an op that is not in `ops`, InvalidArgument for a
// malformed function, Unimplemented for what the file cannot say.
absl::StatusOr<ClusterFile> WriteClusterFile(
    const tensorflow::FunctionDef& function,
    absl::Span<const ClusterInput> inputs,
    const tensorflow::OpRegistryInterface& ops);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_CLUSTER_FILE_H_
