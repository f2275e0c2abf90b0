// Which way calls of one size are faster: with the kernel or in TensorFlow.
//
// Nothing here knows TensorFlow or kernels: a trial says which way a call is to
// go, is told how long it took, and settles on a way (docs/adr/0021).
#ifndef TF_DISC_CC_COMPILE_SPEED_TRIAL_H_
#define TF_DISC_CC_COMPILE_SPEED_TRIAL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace tf_disc {

enum class Way { kKernel, kFunction };

// Times of one way.
struct WayTimes {
  int count = 0;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
};

class SpeedTrial;

// One call's part in a trial, from the choice of its way to its end. One that
// is destroyed before Finish was no run to speak of.
class TrialCall {
 public:
  // Goes with the kernel and belongs to no trial.
  TrialCall() = default;
  TrialCall(TrialCall&& other) noexcept
      : trial_(std::exchange(other.trial_, nullptr)),
        way_(other.way_),
        is_turn_(other.is_turn_) {}
  TrialCall& operator=(TrialCall&& other) noexcept;
  ~TrialCall() { Abandon(); }

  Way way() const { return way_; }
  // Whether Finish is of use: most calls need not be timed.
  bool is_timed() const { return trial_ != nullptr; }
  // `undisturbed`: nothing else of this library ran meanwhile. Call at most
  // once.
  void Finish(int64_t ns, bool undisturbed);

 private:
  friend class SpeedTrial;
  TrialCall(SpeedTrial* trial, Way way, bool is_turn)
      : trial_(trial), way_(way), is_turn_(is_turn) {}
  void Abandon();

  SpeedTrial* trial_ = nullptr;  // null: not timed
  Way way_ = Way::kKernel;
  bool is_turn_ = false;  // of the trial's schedule, not a time for free
};

// Thread-safe. Outlives its calls.
class SpeedTrial {
 public:
  SpeedTrial() = default;
  SpeedTrial(const SpeedTrial&) = delete;
  SpeedTrial& operator=(const SpeedTrial&) = delete;

  // A call that can go either way. Lock-free once the trial has settled.
  TrialCall Begin() {
    const int64_t call = calls_.fetch_add(1, std::memory_order_relaxed);
    if (call < next_check_.load(std::memory_order_relaxed)) {
      return TrialCall(nullptr, way_.load(std::memory_order_relaxed), false);
    }
    return BeginTurn();
  }

  // A call that TensorFlow runs since there is no kernel yet: its time is had
  // for free, beside the compile.
  TrialCall BeginWithoutKernel() {
    return TrialCall(this, Way::kFunction, false);
  }

  struct Snapshot {
    bool settled = false;    // else it is measuring, and `way` is what it was
    Way way = Way::kKernel;  // of calls that are not timed
    int64_t calls = 0;       // that could go either way
    int64_t checks = 0;      // how often it settled
    WayTimes kernel;         // that it settled by; so far, where it has not
    WayTimes function;
  };
  Snapshot snapshot() const;

  // Runs of one way in a row, of which the first finds cold caches and is not
  // counted.
  static constexpr int kBlock = 4;
  // A kernel's first runs pack its weights.
  static constexpr int kWarmUp = 4;
  // Counted runs each way, undisturbed, that settle a clear win, any other
  // case, and that a kernel in use is used no more: another program may have
  // had the processors for longer than a block.
  static constexpr int kFew = 3;
  static constexpr int kEnough = 6;
  static constexpr int kToLose = 12;
  // Turns after which disturbed runs have to do.
  static constexpr int kMaxTurns = 64;
  // Calls until the first check of a verdict; twice as many until the next.
  static constexpr int64_t kFirstCheck = 10000;

 private:
  friend class TrialCall;

  // The latest times of one way.
  class Times {
   public:
    void Add(int64_t ns, bool undisturbed);
    void Clear() { count_ = 0; }
    WayTimes Of(bool undisturbed_only) const;

   private:
    static constexpr int kKept = 16;
    std::array<int64_t, kKept> ns_{};
    std::array<bool, kKept> undisturbed_{};
    int64_t count_ = 0;  // since the last Clear; kKept of them are there
  };

  TrialCall BeginTurn();
  void End(Way way, bool is_turn, int64_t ns, bool undisturbed);
  // These need mutex_.
  void StartCheck();
  void EndBlock();
  void Judge();
  void Settle(const WayTimes& kernel, const WayTimes& function,
              bool kernel_is_slower, bool function_is_slower);

  std::atomic<int64_t> calls_{0};
  // The count of calls at which the next one is timed; 0 while measuring.
  std::atomic<int64_t> next_check_{0};
  std::atomic<Way> way_{Way::kKernel};

  mutable std::mutex mutex_;
  // All below is guarded by mutex_.
  Times kernel_;
  Times function_;
  bool measuring_ = true;
  bool has_turn_ = false;  // a call has the turn; others are not timed
  bool had_turn_ = false;  // there is a kernel
  bool saw_function_ = false;
  int turns_ = 0;
  Way block_way_ = Way::kKernel;
  int block_left_ = kBlock + kWarmUp;
  int block_cold_ = 1 + kWarmUp;  // not counted
  int64_t checks_ = 0;
  WayTimes settled_kernel_;
  WayTimes settled_function_;
};

// The trials of one kernel, by size class. Thread-safe, lock-free where the
// trial exists.
class SpeedTrials {
 public:
  // Class 0 is calls without elements, class c has 2^(c-1) to 2^c - 1 of them,
  // the last one all that are larger.
  static constexpr int kNumClasses = 42;
  static int SizeClass(int64_t elements) {
    if (elements <= 0) return 0;
    const int bits = 64 - __builtin_clzll(static_cast<uint64_t>(elements));
    return bits < kNumClasses ? bits : kNumClasses - 1;
  }

  SpeedTrials() = default;
  ~SpeedTrials();
  SpeedTrials(const SpeedTrials&) = delete;
  SpeedTrials& operator=(const SpeedTrials&) = delete;

  // Made if there is none.
  SpeedTrial& Of(int size_class);
  // Null if there is none.
  const SpeedTrial* Find(int size_class) const {
    return trials_[size_class].load(std::memory_order_acquire);
  }

 private:
  std::array<std::atomic<SpeedTrial*>, kNumClasses> trials_{};
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_SPEED_TRIAL_H_
