// Which launches run beside each other: a time that was taken while another
// launch had some of the threads says little.
#ifndef TF_DISC_CC_OPS_RUNNING_LAUNCHES_H_
#define TF_DISC_CC_OPS_RUNNING_LAUNCHES_H_

#include <atomic>
#include <cstdint>

namespace tf_disc {

// One launch that runs, until End or the end of the object.
class RunningLaunch {
 public:
  RunningLaunch()
      : before_(state_.fetch_add(kStarted + 1, std::memory_order_relaxed)) {}
  ~RunningLaunch() {
    if (runs_) End();
  }
  RunningLaunch(const RunningLaunch&) = delete;
  RunningLaunch& operator=(const RunningLaunch&) = delete;

  // Whether no other launch ran since the constructor. Call once.
  bool End() {
    runs_ = false;
    const uint64_t now = state_.fetch_sub(1, std::memory_order_relaxed);
    return before_ % kStarted == 0 && now == before_ + kStarted + 1;
  }

 private:
  // The lower half counts those that run, the upper one those that ever
  // started; it may wrap around.
  static constexpr uint64_t kStarted = uint64_t{1} << 32;
  static inline std::atomic<uint64_t> state_{0};

  const uint64_t before_;
  bool runs_ = true;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_RUNNING_LAUNCHES_H_
