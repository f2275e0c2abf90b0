// What Python (or a C++ server) may tell and ask the launch side of tf_disc.
//
// Every function here may be called from any thread, with or without the
// Python GIL. None of them runs Python. WaitForCompiles blocks: bindings
// release the GIL around it.
#ifndef TF_DISC_CC_OPS_CONTROL_H_
#define TF_DISC_CC_OPS_CONTROL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tf_disc {

// How clusters get compiled. A process that never calls Configure compiles
// nothing: DiscLaunch then runs shipped artifacts or the outlined function.
struct LaunchSettings {
  // The compile worker: program and arguments. Empty = no compiling. A program
  // without a slash is looked up in PATH as it is when Configure is called.
  std::vector<std::string> worker_command;
  // `NAME=value` entries added to the environment that the process has when
  // Configure is called; an entry replaces the variable of the same name.
  std::vector<std::string> worker_environment;
  // The compiler's identity (versions and a hash of its sources), the same text
  // that the worker sends after "ready ". A worker that answers with another is
  // refused, since the disk cache would mix two compilers. Empty = any worker,
  // and the disk cache stays off.
  std::string fingerprint;
  // Folder of the disk cache; made when first written. Empty = off.
  std::string cache_dir;
  // The disk cache is trimmed, oldest entries first, when it grows beyond this.
  int64_t cache_limit_bytes = int64_t{1} << 30;
  // Longest time from sending a cluster to having the worker's answer.
  double compile_timeout_s = 120;
  // Longest time from starting the worker to its "ready".
  double worker_start_timeout_s = 60;
  // The worker ends after this long without work.
  double worker_idle_s = 30;
  // Folder for dumps, one subfolder a compile. Empty = none.
  std::string dump_dir;
  // Megabytes that packed weights may take.
  int64_t weight_cache_mb = 2048;
  // Megabytes that freed memory of outputs and arenas may take until it is used
  // again. 0: TensorFlow allocates.
  int64_t pool_mb = 512;
  // Freed memory that no launch used for one to two times as long goes back to
  // the system.
  double pool_trim_s = 10;
  // The highest CPU level that is used: "x86-64-v2" …, or "" for any.
  std::string max_cpu;
};

// Takes effect for every compile that starts afterwards; what is compiled
// stays. InvalidArgument names the setting that is out of range; nothing
// changes then.
absl::Status Configure(const LaunchSettings& settings);

// What the launches of this process did, as JSON text (docs/report.md has the
// fields). Numbers count since the start or the last reset.
std::string LaunchStatisticsJson();

// Sets counts and times to zero. Compiled kernels and remembered failures stay.
void ResetLaunchStatistics();

// Waits until no compile is queued or running. False when `timeout_s` passed
// first.
bool WaitForCompiles(double timeout_s);

// Forgets why compiles failed, so that the next call of each such signature
// asks again. Returns how many were forgotten.
int64_t ClearFailedCompiles();

// Gives back the memory that launches freed and that waits for the next ones.
void ClearPool();

// Process id of the compile worker, 0 when none runs. For tests and messages.
int64_t CompileWorkerPid();

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_CONTROL_H_
