// Packed weights, once for the whole process (DESIGN 6).
#ifndef TF_DISC_CC_RUNTIME_WEIGHT_CACHE_H_
#define TF_DISC_CC_RUNTIME_WEIGHT_CACHE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "cc/abi/kernel_abi.h"
#include "cc/runtime/gemm.h"
#include "cc/runtime/host.h"
#include "cc/runtime/weight_slots.h"

namespace tf_disc {

// A weight in a PackedGemm's layout, with a hold on the buffer it was packed
// from: while this object lives, the buffer's pointer names this content.
class PackedWeight {
 public:
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  const void* data() const { return data_; }
  const void* source() const { return source_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  friend class WeightCache;
  PackedWeight(const void* source, int64_t size_bytes,
               std::unique_ptr<BufferHold> hold);

  const void* const source_;
  const int64_t size_bytes_;
  void* const data_;  // null where memory is short
  const std::unique_ptr<BufferHold> hold_;
};

// Since the start of the process, but for `entries` and `bytes`.
struct WeightCacheCounters {
  int64_t hits = 0;       // launches that found their weight packed
  int64_t misses = 0;     // cacheable weights that were not (yet) packed
  int64_t packs = 0;      // weights packed
  int64_t released = 0;   // let go: pointer changed, or only the cache held it
  int64_t evictions = 0;  // let go for the budget
  int64_t entries = 0;
  int64_t bytes = 0;
};

// Thread-safe. No lock is held while a weight is packed.
class WeightCache {
 public:
  static constexpr int64_t kDefaultBudgetBytes = int64_t{4} << 30;

  explicit WeightCache(int64_t budget_bytes = kDefaultBudgetBytes)
      : budget_bytes_(budget_bytes) {}
  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  // The process's own; never destroyed.
  static WeightCache& Global();

  // A weight of one launch.
  struct Request {
    const PackedGemm* gemm;  // outlives the cache (PackedGemm::Get)
    const void* data;        // of gemm's k * n elements
    bool transpose;
    bool is_constant;  // pack at once
    // Called at most once, when the weight is about to be packed; null result
    // means that it cannot be held and is not cached.
    std::function<std::unique_ptr<BufferHold>()> hold;
  };

  // The packed form of request.data, which stays valid while the result lives;
  // null if this launch multiplies the weight as it is: too few launches with
  // this pointer, larger than the budget, no memory, no hold, or another
  // thread is packing it right now.
  std::shared_ptr<const PackedWeight> Resolve(const Request& request,
                                              WeightSlot* slot);

  // Lets go of every weight; runs under way keep theirs until they end.
  void Clear();
  // Evicts at once where the new budget asks for it.
  void SetBudget(int64_t budget_bytes);
  // Lets go of weights that only the cache still holds.
  void Sweep();
  WeightCacheCounters counters() const;

 private:
  using Key = std::tuple<const void*, const PackedGemm*, bool>;
  struct Entry {
    std::shared_ptr<const PackedWeight> packed;  // null while being packed
    std::list<Key>::iterator recency;            // valid if packed
  };
  using Released = std::list<std::shared_ptr<const PackedWeight>>;

  // The next three need `mutex_`; what they let go is moved to `released`, and
  // destroyed by the caller after unlocking (freeing a Tensor takes time).
  void SweepLocked(Released* released);
  void EvictLocked(int64_t room_bytes, Released* released);
  void RemoveLocked(std::map<Key, Entry>::iterator entry, Released* released);

  mutable std::mutex mutex_;
  int64_t budget_bytes_;
  std::map<Key, Entry> entries_;
  std::list<Key> recency_;  // most recently used first
  WeightCacheCounters counters_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_WEIGHT_CACHE_H_
