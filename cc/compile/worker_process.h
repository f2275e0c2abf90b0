// The compile worker: a process that turns cluster files into artifacts
// (docs/contracts.md 4). Started by the first compile, stopped by Stop.
//
// Whatever it does - die, hang, answer with rubbish - ends as a Status of the
// one compile that it was busy with; the next compile starts another worker.
//
// Not thread-safe. All calls come from one thread, which lives as long as the
// worker may (see spawn.h) and has SIGPIPE blocked.
#ifndef TF_DISC_CC_COMPILE_WORKER_PROCESS_H_
#define TF_DISC_CC_COMPILE_WORKER_PROCESS_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/compile/spawn.h"

namespace tf_disc {

struct WorkerSettings {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // complete
  std::string fingerprint;               // expected; empty = any
  double start_timeout_s = 60;
  double compile_timeout_s = 120;
};

struct WorkerResponse {
  enum Code : uint32_t { kCompiled = 0, kUnsupported = 1, kInternalError = 2 };
  uint32_t code = kCompiled;
  std::string manifest;
  std::string object;
  std::string message;
};

class WorkerProcess {
 public:
  WorkerProcess() = default;
  ~WorkerProcess() { Stop(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends one request (JSON) and waits for the response, starting a worker when
  // none runs or when `settings` ask for another program than the one that
  // does. Unavailable: it could not be started. Aborted: it died.
  // DeadlineExceeded: no answer in time. DataLoss: an answer outside the
  // protocol. After each of these no worker runs.
  absl::StatusOr<WorkerResponse> Compile(const WorkerSettings& settings,
                                         absl::string_view request);

  // From any thread: the Compile under way and all later ones fail with
  // Cancelled, within a tenth of a second.
  void Interrupt() { interrupted_.store(true, std::memory_order_relaxed); }

  // Ends the worker: end of input first, then by force.
  void Stop();

  bool running() const { return child_.pid > 0; }
  // 0 when none runs. From any thread.
  int64_t pid() const { return pid_.load(std::memory_order_relaxed); }
  // Workers started in this object's life. From any thread.
  int64_t starts() const { return starts_.load(std::memory_order_relaxed); }

  // Forgets earlier failures: the next start waits for nothing.
  void ResetBackoff() { failures_in_row_ = 0; }

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status Start(const WorkerSettings& settings);
  absl::StatusOr<WorkerResponse> Exchange(absl::string_view bytes,
                                          Clock::time_point deadline);
  bool HasUnaskedOutput() const;
  // Takes what the worker has written to its standard error.
  void ReadMessages();
  // Kills the worker, and says how it ended and what it last wrote.
  std::string KillAndDescribe();
  void CloseAll();

  SpawnedProcess child_;
  WorkerSettings running_settings_;
  std::string messages_;  // the end of its standard error
  int failures_in_row_ = 0;
  Clock::time_point last_failure_;
  std::atomic<bool> interrupted_{false};
  std::atomic<int64_t> pid_{0};
  std::atomic<int64_t> starts_{0};
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_WORKER_PROCESS_H_
