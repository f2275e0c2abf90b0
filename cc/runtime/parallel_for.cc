#include "cc/runtime/parallel_for.h"

#include <immintrin.h>

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

// Shared by the caller and its closures, and alive until the last closure has
// run. `fn` and `host` outlive only the loop: a participant touches them
// between Enter and Leave and at no other time.
class LoopState {
 public:
  LoopState(Host* host, const char* name, int64_t count, int64_t range_items,
            RangeFn fn)
      : host_(host),
        name_(name),
        count_(count),
        range_items_(range_items),
        fn_(fn) {}

  // A participant's whole part. The caller has slot 0.
  void Help() {
    if (!Enter()) return;
    Work(next_slot_.fetch_add(1, std::memory_order_relaxed));
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
      const int32_t status = fn_(begin, end, slot);
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

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;

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

  Host* const host_;
  const char* const name_;
  const int64_t count_;
  const int64_t range_items_;
  const RangeFn fn_;
  // Each on a cache line of its own: every participant hammers the first.
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> started_{
      0};  // who entered and has not left
  std::atomic<int32_t> next_slot_{1};
  std::atomic<int32_t> status_{DISC_OK};
  std::mutex mutex_;
  std::condition_variable all_left_;
};

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

LoopPlan PlanLoop(int64_t count, int64_t grain, int64_t item_cost_ns,
                  int max_participants) {
  LoopPlan plan;
  plan.range_items = count;
  const int64_t step = std::max<int64_t>(grain, 1);
  const double item_ns =
      static_cast<double>(std::max<int64_t>(item_cost_ns, 1));
  const double total_ns = item_ns * static_cast<double>(count);
  const int64_t steps = CeilDiv(count, step);
  if (max_participants <= 1 || steps <= 1 || total_ns < kInlineBelowNs) {
    return plan;
  }
  const double by_cost = total_ns / kNsPerParticipant;
  int64_t participants = max_participants;
  if (by_cost < static_cast<double>(participants)) {
    participants = static_cast<int64_t>(by_cost);
  }
  participants = std::min(participants, steps);
  const int64_t steps_for_balance =
      CeilDiv(steps, participants * kRangesPerParticipant);
  const int64_t steps_for_cost =
      1 +
      static_cast<int64_t>(kNsPerRange / (item_ns * static_cast<double>(step)));
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
  if (count <= 0) return DISC_OK;
  if (tls_slot >= 0) return fn(0, count, tls_slot);
  const LoopPlan plan =
      PlanLoop(count, grain, item_cost_ns, std::max(max_participants, 1));
  if (plan.participants <= 1) return RunInline(host, name, count, fn);
  const auto state =
      std::make_shared<LoopState>(host, name, count, plan.range_items, fn);
  for (int i = 1; i < plan.participants; ++i) {
    host->Schedule([state] { state->Help(); });
  }
  state->Work(0);
  return state->Close();
}

}  // namespace tf_disc
