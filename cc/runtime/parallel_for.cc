#include "cc/runtime/parallel_for.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "cc/runtime/mxcsr.h"

namespace tf_disc {
namespace {

// Waking a thread of the pool takes the caller some 10 us, and 25 until it
// runs, on a virtual machine with two cores: a loop of 17 us took 24 with
// two, one of 50 took 69, one of 66 took 61, one of 131 took 92.
constexpr double kInlineBelowNs = 60e3;
constexpr double kNsPerParticipant = 30e3;
constexpr double kNsPerRange = 4e3;
// A helper that looks out for the next loop is there at once.
constexpr double kInlineBelowAwakeNs = 10e3;
constexpr double kNsPerAwakeParticipant = 5e3;
constexpr double kNsPerAwakeRange = 1.5e3;
// More ranges than participants, so that a late or slow one costs little: the
// last range is what the others wait for (deepfm 1024: 6.0 ms with 4, 5.7 with
// 8).
constexpr int64_t kRangesPerParticipant = 8;
// Some 20 us: what the last range usually has left when the caller is done.
constexpr int kSpins = 500;

// The slot of the range that this thread runs; -1 outside a loop.
thread_local int32_t tls_slot = -1;

class ScopedSlot {
 public:
  explicit ScopedSlot(int32_t slot) : old_(tls_slot) { tls_slot = slot; }
  ~ScopedSlot() { tls_slot = old_; }

 private:
  const int32_t old_;
};

// How long a helper looks out for the run's next loop before it goes back to
// the pool: some 10 us at full speed, then as long again and more while it
// offers its core to others. Between two loops of a run lie a few us, or a loop
// that was not worth sharing; waking a thread anew costs 25.
constexpr int kLookOutSpins = 250;
constexpr int kLookOutYields = 60;

int32_t RunInline(Host* host, const char* name, int64_t count, RangeFn fn) {
  const ScopedKernelMxcsr mode;
  const ScopedSlot slot(0);
  const bool traced = host->IsTracing();
  const int64_t token = traced ? host->TaskBegin(name) : 0;
  const int32_t status = fn(0, count, 0);
  if (traced) host->TaskEnd(token);
  return status;
}

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

// Shared by the caller and its closures, and alive until the last closure has
// run. A loop's `fn` and the host outlive only the loop: a helper touches them
// between Enter and Leave and at no other time.
class Crew::Shared {
 public:
  // The caller's part of one loop, from its opening to its end.
  int32_t Run(Host* host, const char* name, const LoopPlan& plan, int64_t count,
              RangeFn fn, const std::shared_ptr<Shared>& self) {
    host_ = host;
    name_ = name;
    count_ = count;
    range_items_ = plan.range_items;
    participants_ = plan.participants;
    fn_ = &fn;
    next_.store(0, std::memory_order_relaxed);
    next_slot_.store(1, std::memory_order_relaxed);
    status_.store(DISC_OK, std::memory_order_relaxed);
    // Opens it; helpers that look out see that the number has changed. A helper
    // that goes home counts itself out and then looks once more, so that one of
    // the two sees the other.
    started_.store(0, std::memory_order_release);
    number_.fetch_add(1, std::memory_order_seq_cst);
    for (int here = helpers_.load(std::memory_order_seq_cst);
         here < plan.participants - 1; ++here) {
      helpers_.fetch_add(1, std::memory_order_relaxed);
      host->Schedule([self] { self->Help(); });
    }
    Work(0);
    return Close();
  }

  // Whether a helper is at work, looks out, or was called and comes.
  bool HasHelpers() const {
    return helpers_.load(std::memory_order_relaxed) > 0;
  }

  void EndRun() { ended_.store(true, std::memory_order_release); }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;

  // A helper's whole life: loop after loop, until none comes.
  void Help() {
    uint64_t seen = 0;
    do {
      while (IsNew(&seen)) HelpWithLoop();
      helpers_.fetch_sub(1, std::memory_order_seq_cst);
      if (!IsOpenAnew(seen)) return;
      helpers_.fetch_add(1, std::memory_order_relaxed);
    } while (true);
  }

  // Waits a while for a loop that this helper has not been in.
  bool IsNew(uint64_t* seen) {
    for (int i = 0; i < kLookOutSpins + kLookOutYields; ++i) {
      if (ended_.load(std::memory_order_acquire)) return false;
      const uint64_t number = number_.load(std::memory_order_acquire);
      if (number != *seen) {
        *seen = number;
        return true;
      }
      if (i < kLookOutSpins) {
        _mm_pause();
      } else {
        sched_yield();
      }
    }
    return false;
  }

  bool IsOpenAnew(uint64_t seen) const {
    return !ended_.load(std::memory_order_acquire) &&
           number_.load(std::memory_order_seq_cst) != seen;
  }

  void HelpWithLoop() {
    if (!Enter()) return;
    const int32_t slot = next_slot_.fetch_add(1, std::memory_order_relaxed);
    if (slot < participants_) Work(slot);
    Leave();
  }

  void Work(int32_t slot) {
    const ScopedKernelMxcsr mode;
    const ScopedSlot scoped_slot(slot);
    const bool traced = host_->IsTracing();
    const int64_t token = traced ? host_->TaskBegin(name_) : 0;
    while (status_.load(std::memory_order_relaxed) == DISC_OK) {
      const int64_t begin =
          next_.fetch_add(range_items_, std::memory_order_relaxed);
      if (begin >= count_) break;
      const int64_t end = begin + std::min(range_items_, count_ - begin);
      const int32_t status = (*fn_)(begin, end, slot);
      if (status != DISC_OK) {
        int32_t expected = DISC_OK;
        status_.compare_exchange_strong(expected, status,
                                        std::memory_order_relaxed);
      }
    }
    if (traced) host_->TaskEnd(token);
  }

  // Nobody enters any more; returns when all who entered have left.
  int32_t Close() {
    started_.fetch_or(kClosed, std::memory_order_acq_rel);
    for (int i = 0; i < kSpins; ++i) {
      if (started_.load(std::memory_order_acquire) == kClosed) {
        return status_.load(std::memory_order_relaxed);
      }
      _mm_pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    all_left_.wait(lock, [this] {
      return started_.load(std::memory_order_acquire) == kClosed;
    });
    return status_.load(std::memory_order_relaxed);
  }

  bool Enter() {
    uint32_t seen = started_.load(std::memory_order_relaxed);
    do {
      if ((seen & kClosed) != 0) return false;
    } while (!started_.compare_exchange_weak(seen, seen + 1,
                                             std::memory_order_acq_rel));
    return true;
  }

  void Leave() {
    if (started_.fetch_sub(1, std::memory_order_acq_rel) - 1 != kClosed) return;
    // The lock orders this with a caller between its test and its wait.
    {
      const std::lock_guard<std::mutex> lock(mutex_);
    }
    all_left_.notify_one();
  }

  // Of the loop that is open; written while it is closed.
  Host* host_ = nullptr;
  const char* name_ = nullptr;
  int64_t count_ = 0;
  int64_t range_items_ = 0;
  int32_t participants_ = 0;
  const RangeFn* fn_ = nullptr;
  // Each on a cache line of its own: every participant hammers the first.
  alignas(64) std::atomic<int64_t> next_{0};
  // Who entered and has not left.
  alignas(64) std::atomic<uint32_t> started_{kClosed};
  std::atomic<int32_t> next_slot_{1};
  std::atomic<int32_t> status_{DISC_OK};
  // Loops so far; helpers that are scheduled, at work or looking out.
  alignas(64) std::atomic<uint64_t> number_{0};
  std::atomic<bool> ended_{false};
  std::atomic<int> helpers_{0};
  std::mutex mutex_;
  std::condition_variable all_left_;
};

Crew::~Crew() {
  if (shared_ != nullptr) shared_->EndRun();
}

int32_t Crew::ParallelFor(const char* name, int64_t count, int64_t grain,
                          int64_t item_cost_ns, RangeFn fn) {
  if (count <= 0) return DISC_OK;
  if (tls_slot >= 0) return fn(0, count, tls_slot);
  const bool awake = shared_ != nullptr && shared_->HasHelpers();
  const LoopPlan plan =
      PlanLoop(count, grain, item_cost_ns, max_participants_, awake);
  if (plan.participants <= 1) return RunInline(host_, name, count, fn);
  if (shared_ == nullptr) shared_ = std::make_shared<Shared>();
  return shared_->Run(host_, name, plan, count, fn, shared_);
}

LoopPlan PlanLoop(int64_t count, int64_t grain, int64_t item_cost_ns,
                  int max_participants, bool awake) {
  const double inline_below = awake ? kInlineBelowAwakeNs : kInlineBelowNs;
  const double per_participant =
      awake ? kNsPerAwakeParticipant : kNsPerParticipant;
  const double per_range = awake ? kNsPerAwakeRange : kNsPerRange;
  LoopPlan plan;
  plan.range_items = count;
  const double item_ns =
      static_cast<double>(std::max<int64_t>(item_cost_ns, 1));
  const double total_ns = item_ns * static_cast<double>(count);
  // Before anything is divided: most loops of a small call end here.
  if (max_participants <= 1 || total_ns < inline_below) return plan;
  const int64_t step = std::max<int64_t>(grain, 1);
  const int64_t steps = CeilDiv(count, step);
  if (steps <= 1) return plan;
  const double by_cost = total_ns / per_participant;
  int64_t participants = max_participants;
  if (by_cost < static_cast<double>(participants)) {
    participants = static_cast<int64_t>(by_cost);
  }
  participants = std::min(participants, steps);
  const int64_t steps_for_balance =
      CeilDiv(steps, participants * kRangesPerParticipant);
  const int64_t steps_for_cost =
      1 +
      static_cast<int64_t>(per_range / (item_ns * static_cast<double>(step)));
  const int64_t steps_per_range =
      std::min(std::max(steps_for_balance, steps_for_cost),
               CeilDiv(steps, participants));
  participants = std::min(participants, CeilDiv(steps, steps_per_range));
  if (participants <= 1) return plan;
  plan.participants = static_cast<int>(participants);
  plan.range_items =
      steps_per_range > count / step ? count : steps_per_range * step;
  return plan;
}

int32_t ParallelFor(Host* host, const char* name, int max_participants,
                    int64_t count, int64_t grain, int64_t item_cost_ns,
                    RangeFn fn) {
  return Crew(host, max_participants)
      .ParallelFor(name, count, grain, item_cost_ns, fn);
}

}  // namespace tf_disc
