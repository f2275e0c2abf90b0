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

struct ClusterFile {
  std::string json;  // the cluster file
  // The same without sizes and with numbers for names: equal for clusters that
  // the same kernel serves.
  std::string key_json;
};

// `inputs` are the function's arguments in order. Default attributes are filled
// in, control inputs and attributes that begin with `_` left out. Errors name
// the node: NotFound for an op that is not in `ops`, InvalidArgument for a
// malformed function, Unimplemented for what the file cannot say.
absl::StatusOr<ClusterFile> WriteClusterFile(
    const tensorflow::FunctionDef& function,
    absl::Span<const ClusterInput> inputs,
    const tensorflow::OpRegistryInterface& ops);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_CLUSTER_FILE_H_
