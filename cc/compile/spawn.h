// Starts the compile worker as a child process.
#ifndef TF_DISC_CC_COMPILE_SPAWN_H_
#define TF_DISC_CC_COMPILE_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tf_disc {

// A running child and our ends of its three pipes: non-blocking, close-on-exec,
// owned by the caller.
struct SpawnedProcess {
  pid_t pid = -1;
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
};

// Runs `command` with `environment` (`NAME=value` entries, nothing is
// inherited) in a process group of its own. The child has default signal
// handling and no descriptor but its three pipes. The kernel kills it when the
// *thread* that called this ends, and so at the latest when the process does:
// call it from a thread that lives as long as the child may. Unavailable names
// the program and the cause.
absl::StatusOr<SpawnedProcess> Spawn(
    const std::vector<std::string>& command,
    const std::vector<std::string>& environment);

// `program` with the folder of the PATH entry of `environment` that has it, or
// unchanged when it holds a slash. NotFound when no folder has it.
absl::StatusOr<std::string> FindProgram(
    const std::string& program, const std::vector<std::string>& environment);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_SPAWN_H_
