// Runs an artifact alone: without TensorFlow's threads, allocator or
// DiscLaunch.
#ifndef TF_DISC_CC_BINDINGS_REPLAY_H_
#define TF_DISC_CC_BINDINGS_REPLAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/runtime/executable.h"
#include "cc/runtime/manifest.h"

namespace tf_disc {

// One dense row-major tensor.
struct ReplayTensor {
  disc_dtype dtype = DISC_F32;
  std::vector<int64_t> dims;
  std::string bytes;
};

// Runs once on the calling thread. No weight is cached. FailedPrecondition with
// the guard's text where a guard fails, Internal with the reason where the run
// does; InvalidArgument where `inputs` are not what the manifest says.
absl::StatusOr<std::vector<ReplayTensor>> Replay(
    const Executable& executable, const std::vector<ReplayTensor>& inputs);

}  // namespace tf_disc

#endif  // TF_DISC_CC_BINDINGS_REPLAY_H_
