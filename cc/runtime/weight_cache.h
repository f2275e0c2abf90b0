// Packed weights, once for the whole process (DESIGN 6).
#ifndef TF_DISC_CC_RUNTIME_WEIGHT_CACHE_H_
#define TF_DISC_CC_RUNTIME_WEIGHT_CACHE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
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
  const std::unique_ptr<BufferHold> hold_;
  void* const data_;  // null where memory is short
  // The cache's clock at the latest launch that used it.
  mutable std::atomic<int64_t> last_use_{0};
};

// Since the cache was made, but for `entries` and `bytes`.
struct WeightCacheCounters {
  int64_t hits = 0;       // launches that found their weight packed
  int64_t misses = 0;     // launches of cacheable weights that did not
  int64_t packs = 0;      // weights packed
  int64_t released = 0;   // let go because only the cache still held them
  int64_t evictions = 0;  // let go for the budget
  int64_t failures = 0;   // weights that could not be packed
  int64_t entries = 0;
  int64_t bytes = 0;
  std::string last_failure;  // why, for people; empty if none
};

// Thread-safe. No lock is held while a weight is packed or used.
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
    std::shared_ptr<const PackedGemm> gemm;  // with can_pack()
    const void* data = nullptr;              // k * n elements, not null
    disc_dtype stored = DISC_F32;            // of `data`
    bool transpose = false;                  // stored as [n, k]
    bool is_constant = false;                // pack at once
  };
  // Called at most once, when the weight is about to be packed. Null means
  // that its buffer cannot be held: it is not cached.
  using HoldFn = absl::FunctionRef<std::unique_ptr<BufferHold>()>;

  // The packed form of request.data, valid while the result lives; null where
  // this launch has to multiply the weight as it is: too few launches with this
  // pointer so far, larger than the budget, no memory, no hold, or another
  // thread is packing it right now. `slot` is the launch's memory of this
  // weight; launches with the same slot may come from many threads.
  std::shared_ptr<const PackedWeight> Resolve(const Request& request,
                                              HoldFn hold, WeightSlot* slot);

  // Lets go of every weight; runs under way keep theirs until they end.
  void Clear();
  // Evicts at once where the new budget asks for it.
  void SetBudget(int64_t budget_bytes);
  // Lets go of weights that only the cache still holds. Also done whenever a
  // slot's pointer has changed and before a weight is packed.
  void Sweep();
  WeightCacheCounters counters() const;

 private:
  // One buffer may be packed for several GEMMs, or both ways round.
  using Key = std::tuple<const void*, const PackedGemm*, bool>;
  struct Entry {
    std::shared_ptr<const PackedGemm> gemm;      // keeps the key's pointer
    std::shared_ptr<const PackedWeight> packed;  // null while being packed
  };
  using Entries = std::map<Key, Entry>;
  // What is let go under `mutex_` is destroyed after unlocking: freeing a
  // Tensor takes time and runs code that is not ours.
  using Released = std::vector<std::shared_ptr<const PackedWeight>>;

  std::shared_ptr<const PackedWeight> Use(
      std::shared_ptr<const PackedWeight> packed);
  std::shared_ptr<const PackedWeight> PackAndInsert(const Request& request,
                                                    HoldFn hold);
  void Fail(const Key& key, const std::string& why);
  // These need `mutex_`.
  void SweepLocked(Released* released);
  void EvictLocked(Released* released);
  Entries::iterator RemoveLocked(Entries::iterator entry, Released* released);

  std::atomic<int64_t> clock_{0};
  std::atomic<int64_t> hits_{0};
  std::atomic<int64_t> misses_{0};
  mutable std::mutex mutex_;
  int64_t budget_bytes_;
  Entries entries_;
  WeightCacheCounters counters_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_WEIGHT_CACHE_H_
