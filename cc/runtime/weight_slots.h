// What one user of an executable remembers about its weights between launches.
#ifndef TF_DISC_CC_RUNTIME_WEIGHT_SLOTS_H_
#define TF_DISC_CC_RUNTIME_WEIGHT_SLOTS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tf_disc {

class PackedWeight;

// One gemm of one DiscLaunch node. Guarded by `mutex`, which is held for
// comparisons only, never while packing or running.
struct WeightSlot {
  std::mutex mutex;
  const void* pointer = nullptr;  // of the latest launch
  int launches = 0;               // in a row with `pointer`
  // Launches in a row before the weight is packed and held. Doubles, up to a
  // bound, each time that a held weight was lost again: its variable is being
  // trained, or the cache is too small.
  int launches_before_hold = 3;
  bool has_held = false;  // `packed` was set and not lost yet
  std::weak_ptr<const PackedWeight> packed;  // the cache owns it
};

// One slot for each gemm of the manifest. Shared by concurrent launches.
class WeightSlots {
 public:
  explicit WeightSlots(size_t num_gemms) : slots_(num_gemms) {}
  WeightSlots(const WeightSlots&) = delete;
  WeightSlots& operator=(const WeightSlots&) = delete;

  size_t size() const { return slots_.size(); }
  WeightSlot& operator[](size_t gemm) { return slots_[gemm]; }

 private:
  std::vector<WeightSlot> slots_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_WEIGHT_SLOTS_H_
