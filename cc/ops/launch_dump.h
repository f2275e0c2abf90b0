// The folder of one compile: what tf-disc replay needs to run the cluster
// again.
#ifndef TF_DISC_CC_OPS_LAUNCH_DUMP_H_
#define TF_DISC_CC_OPS_LAUNCH_DUMP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_disc {

// Makes `<dump_dir>/<cluster_id>_<n>` with the first n that is free and writes
// cluster.json and input_<i>.npy into it. Returns the folder; the compiler adds
// its stages. Unavailable names the file that could not be written.
absl::StatusOr<std::string> WriteLaunchDump(
    const std::string& dump_dir, const std::string& cluster_id,
    const std::string& cluster_json,
    absl::Span<const tensorflow::Tensor* const> inputs);

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_LAUNCH_DUMP_H_
