// Which launches run beside each other: a time that was taken while another
// launch had some of the threads says little.
#ifndef TF_DISC_CC_OPS_RUNNING_LAUNCHES_H_
#define TF_DISC_CC_OPS_RUNNING_LAUNCHES_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "cc/base/striped_counts.h"

namespace tf_disc {

// One launch that runs, until End or the end of the object.
class RunningLaunch {
 public:
  // `asks`: End is called for its answer, which costs a look at what all
  // threads do.
  explicit RunningLaunch(bool asks) : stripe_(ThisThreadsStripe()) {
    states_[stripe_].value.fetch_add(kStarted + 1);
    if (asks) before_ = Sum();
  }
  ~RunningLaunch() {
    if (runs_) End();
  }
  RunningLaunch(const RunningLaunch&) = delete;
  RunningLaunch& operator=(const RunningLaunch&) = delete;

  // Whether no other launch ran since the constructor. Call once.
  bool End() {
    runs_ = false;
    // In one that has started meanwhile the upper half is another, too.
    const bool is_alone = before_ % kStarted == 1 && Sum() == before_;
    states_[stripe_].value.fetch_sub(1);
    return is_alone;
  }

 private:
  // The lower half counts those that run, the upper one those that ever
  // started; it may wrap around. One state a stripe of threads: launches on
  // several would otherwise take one cache line from each other, twice each.
  static constexpr uint64_t kStarted = uint64_t{1} << 32;
  struct alignas(64) State {
    std::atomic<uint64_t> value;  // static storage: it begins as 0
  };
  static inline std::array<State, kStripes> states_;

  static uint64_t Sum() {
    uint64_t sum = 0;
    for (const State& state : states_) sum += state.value.load();
    return sum;
  }

  const int stripe_;  // an End on another thread is the same launch's
  uint64_t before_ = 0;
  bool runs_ = true;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_RUNNING_LAUNCHES_H_
