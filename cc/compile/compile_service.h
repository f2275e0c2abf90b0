// Gets kernels for signatures: memory, disk, shipped artifact, compile worker,
// in that order, on one background thread. Launches never wait here; who wants
// to wait passes a callback. Now and then, the same thread trims the block
// pool.
//
// The thread starts with the first request, blocks every signal (the user's
// handlers never run on it, SIGPIPE never reaches the process), and ends with
// the process. In a forked child there is no such thread: requests fail there
// with that reason.
#ifndef TF_DISC_CC_COMPILE_COMPILE_SERVICE_H_
#define TF_DISC_CC_COMPILE_COMPILE_SERVICE_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/compile/artifact_file.h"
#include "cc/compile/signature_record.h"
#include "cc/compile/worker_process.h"

namespace tf_disc {

// How the service compiles. Taken as a whole at the start of each compile.
struct CompileSettings {
  WorkerSettings worker;
  std::string cache_dir;
  int64_t cache_limit_bytes = int64_t{1} << 30;
  double worker_idle_s = 30;
  double pool_trim_s = 10;
  std::string dump_dir;
};

// What one compile is given.
struct CompileRequest {
  std::string cluster_json;  // with the sizes of the call that asked
  std::string precision;     // "f32", "bf16"
  std::string dump_folder;   // empty, or where the compiler writes its stages
  std::shared_ptr<const std::string> shipped;  // artifacts; may be null
  bool may_compile = true;  // false: memory, disk and shipped artifacts only
};

// Counts since the start or the last reset.
struct CompileCounters {
  int64_t compiles = 0;          // answers of the worker with a kernel
  int64_t compile_failures = 0;  // requests that ended without one
  int64_t compile_us = 0;        // time in the worker
  int64_t disk_hits = 0;         // signatures found on disk
  int64_t disk_misses = 0;
  int64_t disk_damaged = 0;  // files that were not used
  int64_t disk_stores = 0;
  int64_t shipped_hits = 0;  // signatures found in a DiscLaunch node
  int64_t memory_hits = 0;   // signatures of another cluster with equal code
  int64_t worker_starts = 0;
  int64_t worker_failures = 0;  // died, hung, answered with rubbish
};

class CompileService {
 public:
  // The process's own; never destroyed.
  static CompileService& Global();

  CompileService() = default;
  CompileService(const CompileService&) = delete;
  CompileService& operator=(const CompileService&) = delete;

  void Configure(CompileSettings settings);
  std::shared_ptr<const CompileSettings> settings() const;

  // The artifact key of a signature under the present settings: everything that
  // changes code. `key_json` as WriteClusterFile gives it.
  std::string ArtifactKey(const std::string& key_json,
                          const std::string& precision) const;

  // The record of a cluster and artifact key, made if there is none; valid for
  // the life of the process. ResourceExhausted when the cluster has
  // kMaxSignatures already.
  absl::StatusOr<SignatureRecord*> FindOrAdd(const std::string& cluster_id,
                                             const std::string& key,
                                             const std::string& description);
  static constexpr int kMaxSignatures = 64;

  enum class Answer {
    kWanted,   // (Ask only) nothing stands in the way of a request
    kPending,  // queued or running
    kChanged,  // there are more than `known_variants` now: look again
    kRefused,  // failed before, or no further variant is to be had
  };
  // What Request would say, without asking for anything: a request costs its
  // caller a cluster file.
  Answer Ask(const SignatureRecord& record, int known_variants,
             bool may_compile) const;
  // Asks for a kernel besides the `known_variants` that did not fit. If and
  // only if the answer is kPending, `done` (may be null) is called once, from
  // the compile thread and with no lock held, when the request has ended either
  // way.
  Answer Request(SignatureRecord* record, int known_variants,
                 CompileRequest request, std::function<void()> done);

  // Waits until nothing is queued or running; false after `timeout_s`.
  bool WaitUntilIdle(double timeout_s);
  // Whether nothing is queued or running.
  bool is_idle() const;

  // Forgets failures, so that they may be asked for again. Returns how many.
  int64_t ClearFailures();

  CompileCounters counters() const;
  void ResetCounters();
  // The latest problems in words: damaged files, workers that died. Bounded.
  std::vector<std::string> problems() const;
  void AddProblem(std::string problem);
  std::vector<const SignatureRecord*> records() const;
  int64_t worker_pid() const { return worker_.pid(); }

 private:
  struct Job {
    SignatureRecord* record;
    int known_variants;
    CompileRequest request;
  };

  // A kernel and the digest of what it was loaded from.
  struct Loaded {
    std::string digest;
    std::shared_ptr<const Executable> executable;
  };

  // Needs record.mutex_.
  static Answer AnswerTo(const SignatureRecord& record, int known_variants,
                         bool may_compile);
  // OK if the thread runs or could be started. Needs mutex_.
  absl::Status EnsureThread();
  void ThreadMain();

  // These run on the compile thread.
  void Run(const Job& job);
  absl::Status GetKernel(const Job& job, const CompileSettings& settings);
  // False when they have nothing for the record.
  bool TakeFromMemory(const Job& job);
  bool TakeFromDisk(const Job& job, const CompileSettings& settings);
  bool TakeShipped(const Job& job, const CompileSettings& settings);
  absl::Status Compile(const Job& job, const CompileSettings& settings);
  // Loads an artifact and adds it to the record. False when the record is full
  // or has the same code already.
  absl::StatusOr<bool> LoadAndPublish(SignatureRecord* record,
                                      const Artifact& artifact,
                                      const char* source);
  bool Publish(SignatureRecord* record, const Loaded& loaded,
               const char* source);
  void Finish(const Job& job, const absl::Status& status);

  template <typename Update>
  void Count(Update update);
  void StopAtExit();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<const CompileSettings> settings_ =
      std::make_shared<CompileSettings>();
  std::map<std::pair<std::string, std::string>,
           std::unique_ptr<SignatureRecord>>
      records_;
  std::map<std::string, int> num_signatures_;  // by cluster
  std::deque<Job> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  bool reset_backoff_ = false;
  pid_t owner_ = 0;  // the process that has the thread
  std::thread thread_;
  CompileCounters counters_;
  std::deque<std::string> problems_;

  int64_t worker_starts_at_reset_ = 0;

  // Of the compile thread alone, but for what WorkerProcess offers to any
  // thread.
  WorkerProcess worker_;
  std::map<std::string, std::vector<Loaded>> executables_;  // by artifact key
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_COMPILE_SERVICE_H_
