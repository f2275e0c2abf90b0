// What the process knows about one signature of one cluster: its kernels, or
// why there are none, and how often it was called.
#ifndef TF_DISC_CC_COMPILE_SIGNATURE_RECORD_H_
#define TF_DISC_CC_COMPILE_SIGNATURE_RECORD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/base/striped_counts.h"
#include "cc/compile/speed_trial.h"
#include "cc/runtime/executable.h"

namespace tf_disc {

// Up to this many kernels of one signature, which differ in what they speculate
// on (docs/contracts.md 6).
inline constexpr int kMaxVariants = 4;

enum class CompileState { kIdle, kQueued, kCompiling, kReady, kFailed };

// "idle", "queued", "compiling", "ready", "failed".
const char* CompileStateName(CompileState state);

// Made by CompileService, never destroyed. Thread-safe.
class SignatureRecord {
 public:
  SignatureRecord(std::string cluster_id, std::string key,
                  std::string description)
      : cluster_id(std::move(cluster_id)),
        key(std::move(key)),
        description(std::move(description)) {}
  SignatureRecord(const SignatureRecord&) = delete;
  SignatureRecord& operator=(const SignatureRecord&) = delete;

  const std::string cluster_id;
  const std::string key;          // the artifact's key (docs/contracts.md 5)
  const std::string description;  // for people

  // Kernels that may run now. It only grows; lock-free.
  int num_variants() const {
    return num_variants_.load(std::memory_order_acquire);
  }
  // `i` < num_variants().
  const std::shared_ptr<const Executable>& variant(int i) const {
    return variants_[i];
  }

  // What reports show. Counts are relaxed: they order nothing.
  mutable LaunchCounts counts;
  mutable std::atomic<int64_t> guard_failures{0};
  void ResetCounts() const;

  // By variant: whether it is faster than TensorFlow, for each size of calls.
  // That of a variant yet to come has the times taken meanwhile.
  SpeedTrials& trials(int i) { return trials_[i]; }
  const SpeedTrials& trials(int i) const { return trials_[i]; }

  struct Status {
    CompileState state = CompileState::kIdle;
    std::string failure;  // why there is no kernel, or no further variant
    int num_variants = 0;
    int64_t worker_us = 0;  // in the compile worker, all variants
    int64_t load_us = 0;    // loading and making primitives
    std::string source;     // of variant 0: compiled, disk, shipped, memory
  };
  Status status() const;

 private:
  friend class CompileService;

  std::array<std::shared_ptr<const Executable>, kMaxVariants> variants_;
  std::atomic<int> num_variants_{0};
  std::array<SpeedTrials, kMaxVariants> trials_;

  mutable std::mutex mutex_;
  // All below is guarded by mutex_.
  bool pending_ = false;    // queued or running
  bool compiling_ = false;  // the thread has it
  bool exhausted_ = false;  // no further variant will be asked for
  bool failed_without_compiler_ = false;  // only shipped artifacts were tried
  std::string failure_;
  std::string source_;
  int64_t worker_us_ = 0;
  int64_t load_us_ = 0;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_SIGNATURE_RECORD_H_
