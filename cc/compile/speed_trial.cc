#include "cc/compile/speed_trial.h"

#include <algorithm>

namespace tf_disc {
namespace {

// What a clock and a scheduler add to any time.
constexpr double kNoiseNs = 3000;
constexpr double kMargin = 0.05;
// Enough for a kernel to win by after a few runs.
constexpr double kClearMargin = 0.5;
// Where other launches ran beside every run.
constexpr double kDisturbedMargin = 0.25;
// What a compile beside it cannot add to the fastest of several runs.
constexpr double kBesideCompile = 3;
// What checks may cost, of all time that calls take.
constexpr double kCheckShare = 0.005;
constexpr int kMaxDoublings = 10;

bool IsBeyond(int64_t a_ns, int64_t b_ns, double margin) {
  return static_cast<double>(a_ns) >
         static_cast<double>(b_ns) * (1 + margin) + kNoiseNs;
}

// Even the fastest run of `a` is slower than the median one of `b`. Calls of
// one size class differ in size, so what the two ways were given differs too;
// the spread of their times is part of the noise.
bool IsSlower(const WayTimes& a, const WayTimes& b, double margin) {
  return a.count > 0 && b.count > 0 && IsBeyond(a.min_ns, b.median_ns, margin);
}

// Calls until the next check, such that running the slower way in it takes
// kCheckShare of the time that the faster one does.
int64_t CallsUntilCheck(int64_t checks, const WayTimes& a, const WayTimes& b) {
  const int doublings =
      static_cast<int>(std::min<int64_t>(checks, kMaxDoublings));
  const double calls =
      static_cast<double>(SpeedTrial::kFirstCheck << doublings);
  if (a.count == 0 || b.count == 0) return static_cast<int64_t>(calls);
  const double slow = static_cast<double>(std::max(a.median_ns, b.median_ns));
  const double fast = static_cast<double>(
      std::max<int64_t>(std::min(a.median_ns, b.median_ns), 1));
  const double runs = 2 * SpeedTrial::kBlock + SpeedTrial::kWarmUp;
  const double by_cost = runs * (slow / fast - 1) / kCheckShare;
  return static_cast<int64_t>(std::min(std::max(calls, by_cost), 1e15));
}

}  // namespace

TrialCall& TrialCall::operator=(TrialCall&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  trial_ = std::exchange(other.trial_, nullptr);
  way_ = other.way_;
  is_turn_ = other.is_turn_;
  return *this;
}

void TrialCall::Finish(int64_t ns, bool undisturbed) {
  if (trial_ == nullptr) return;
  std::exchange(trial_, nullptr)->End(way_, is_turn_, ns, undisturbed);
}

void TrialCall::Abandon() { Finish(-1, false); }

void SpeedTrial::Times::Add(int64_t ns, bool undisturbed) {
  const int at = static_cast<int>(count_++ % kKept);
  ns_[at] = ns;
  undisturbed_[at] = undisturbed;
}

WayTimes SpeedTrial::Times::Of(bool undisturbed_only) const {
  std::array<int64_t, kKept> chosen;
  WayTimes times;
  const int there = static_cast<int>(std::min<int64_t>(count_, kKept));
  for (int i = 0; i < there; ++i) {
    if (undisturbed_[i] || !undisturbed_only) chosen[times.count++] = ns_[i];
  }
  if (times.count == 0) return times;
  std::sort(chosen.begin(), chosen.begin() + times.count);
  times.min_ns = chosen[0];
  // The lower of two: a spike makes a time longer, never shorter.
  times.median_ns = chosen[(times.count - 1) / 2];
  return times;
}

TrialCall SpeedTrial::BeginTurn() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (has_turn_) return TrialCall(nullptr, way_.load(), false);
  if (!measuring_) StartCheck();
  has_turn_ = true;
  had_turn_ = true;
  return TrialCall(this, block_way_, true);
}

void SpeedTrial::StartCheck() {
  measuring_ = true;
  next_check_.store(0, std::memory_order_relaxed);
  kernel_.Clear();
  function_.Clear();
  turns_ = 0;
  // Weights that no run has used for long may not be packed any more.
  const int warm_up = way_.load() == Way::kKernel ? 0 : kWarmUp;
  block_way_ = Way::kKernel;
  block_left_ = kBlock + warm_up;
  block_cold_ = 1 + warm_up;
}

void SpeedTrial::End(Way way, bool is_turn, int64_t ns, bool undisturbed) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_turn) {
    // The first one instantiated the function. Once there is a kernel, times
    // beside its compile are of no use.
    const bool counts = saw_function_ && ns >= 0 && !had_turn_;
    saw_function_ = true;
    if (counts) function_.Add(ns, undisturbed);
    return;
  }
  has_turn_ = false;
  ++turns_;
  if (block_cold_ > 0) {
    --block_cold_;
  } else if (ns >= 0) {
    (way == Way::kKernel ? kernel_ : function_).Add(ns, undisturbed);
  }
  if (--block_left_ == 0) EndBlock();
}

void SpeedTrial::EndBlock() {
  if (block_way_ == Way::kFunction) {
    block_way_ = Way::kKernel;
    Judge();
  } else {
    block_way_ = Way::kFunction;
    if (turns_ <= kBlock + kWarmUp) {
      const WayTimes kernel = kernel_.Of(/*undisturbed_only=*/false);
      const WayTimes function = function_.Of(/*undisturbed_only=*/false);
      if (kernel.count >= kFew && function.count >= kFew &&
          static_cast<double>(kernel.median_ns) * kBesideCompile <=
              static_cast<double>(function.min_ns)) {
        Settle(kernel, function, false, true);
        return;
      }
      function_.Clear();
    }
  }
  block_left_ = kBlock;
  block_cold_ = 1;
}

void SpeedTrial::Judge() {
  const WayTimes kernel = kernel_.Of(/*undisturbed_only=*/true);
  const WayTimes function = function_.Of(/*undisturbed_only=*/true);
  const int count = std::min(kernel.count, function.count);
  const bool wins_clearly =
      count >= kFew && IsSlower(function, kernel, kClearMargin);
  const bool loses = IsSlower(kernel, function, kMargin);
  const bool changes_to_function = loses && way_.load() == Way::kKernel;
  if (wins_clearly || count >= (changes_to_function ? kToLose : kEnough)) {
    Settle(kernel, function, loses, IsSlower(function, kernel, kMargin));
  } else if (turns_ >= kMaxTurns) {
    // The fastest of disturbed runs says nothing: it may be the only one that
    // was not.
    const WayTimes k = kernel_.Of(/*undisturbed_only=*/false);
    const WayTimes f = function_.Of(/*undisturbed_only=*/false);
    const bool both = k.count > 0 && f.count > 0;
    Settle(k, f, both && IsBeyond(k.median_ns, f.median_ns, kDisturbedMargin),
           both && IsBeyond(f.median_ns, k.median_ns, kDisturbedMargin));
  }
}

void SpeedTrial::Settle(const WayTimes& kernel, const WayTimes& function,
                        bool kernel_is_slower, bool function_is_slower) {
  // Where neither is slower beyond noise, calls go on as they did: a tie never
  // flaps.
  if (kernel_is_slower) way_.store(Way::kFunction, std::memory_order_relaxed);
  if (function_is_slower) way_.store(Way::kKernel, std::memory_order_relaxed);
  settled_kernel_ = kernel;
  settled_function_ = function;
  measuring_ = false;
  next_check_.store(calls_.load(std::memory_order_relaxed) +
                        CallsUntilCheck(checks_, kernel, function),
                    std::memory_order_relaxed);
  ++checks_;
}

SpeedTrial::Snapshot SpeedTrial::snapshot() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Snapshot result;
  // While a verdict is being checked it stands.
  result.settled = checks_ > 0;
  result.way = way_.load();
  result.calls = calls_.load();
  result.checks = checks_;
  result.kernel = result.settled ? settled_kernel_ : kernel_.Of(false);
  result.function = result.settled ? settled_function_ : function_.Of(false);
  return result;
}

SpeedTrials::~SpeedTrials() {
  for (std::atomic<SpeedTrial*>& trial : trials_) delete trial.load();
}

SpeedTrial& SpeedTrials::Of(int size_class) {
  std::atomic<SpeedTrial*>& place = trials_[size_class];
  SpeedTrial* trial = place.load(std::memory_order_acquire);
  if (trial != nullptr) return *trial;
  auto* made = new SpeedTrial;
  if (place.compare_exchange_strong(trial, made, std::memory_order_acq_rel)) {
    return *made;
  }
  delete made;
  return *trial;
}

}  // namespace tf_disc
