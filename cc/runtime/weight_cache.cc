#include "cc/runtime/weight_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf_disc {
namespace {

// A trained variable is held for one launch in so many at most.
constexpr int kMaxLaunchesBeforeHold = 96;
// A Const is packed after a third of what a variable needs: at first at once.
constexpr int kConstantHead = 3;

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

void* AllocatePacked(int64_t size_bytes) {
  // Kernels stream weights: large ones are worth large pages, but for a tail
  // that would fill only a part of one.
  const bool is_large = size_bytes >= kHugePageBytes;
  void* data = nullptr;
  if (posix_memalign(&data, is_large ? kHugePageBytes : 64,
                     static_cast<size_t>(std::max<int64_t>(size_bytes, 1))) !=
      0) {
    return nullptr;
  }
  if (is_large) {
    // Only advice: without large pages everything is as it was.
    (void)madvise(
        data, static_cast<size_t>(size_bytes / kHugePageBytes * kHugePageBytes),
        MADV_HUGEPAGE);
  }
  return data;
}

}  // namespace

PackedWeight::PackedWeight(const void* source, int64_t size_bytes,
                           std::unique_ptr<BufferHold> hold)
    : source_(source),
      size_bytes_(size_bytes),
      hold_(std::move(hold)),
      data_(AllocatePacked(size_bytes)) {}

PackedWeight::~PackedWeight() { std::free(data_); }

WeightCache& WeightCache::Global() {
  static WeightCache* const cache = new WeightCache;
  return *cache;
}

std::shared_ptr<const PackedWeight> WeightCache::Use(
    std::shared_ptr<const PackedWeight> packed) {
  hits_.fetch_add(1, std::memory_order_relaxed);
  packed->last_use_.store(clock_.fetch_add(1, std::memory_order_relaxed),
                          std::memory_order_relaxed);
  return packed;
}

std::shared_ptr<const PackedWeight> WeightCache::Resolve(const Request& request,
                                                         HoldFn hold,
                                                         WeightSlot* slot) {
  bool pointer_changed = false;
  bool pack = false;
  {
    const std::lock_guard<std::mutex> lock(slot->mutex);
    std::shared_ptr<const PackedWeight> packed = slot->packed.lock();
    // While it lives its source is held: an equal pointer is equal content.
    if (packed != nullptr && packed->source() == request.data) {
      return Use(std::move(packed));
    }
    pointer_changed = slot->pointer != request.data;
    if (slot->has_held) {
      // The variable was written, or the budget took the weight away. Either
      // may go on for ever: each time wait longer before packing again.
      slot->has_held = false;
      slot->packed.reset();
      slot->launches = 0;
      slot->launches_before_hold =
          std::min(2 * slot->launches_before_hold, kMaxLaunchesBeforeHold);
    }
    if (pointer_changed) {
      slot->pointer = request.data;
      slot->launches = 0;
    }
    ++slot->launches;
    pack = slot->launches >= (request.is_constant
                                  ? slot->launches_before_hold / kConstantHead
                                  : slot->launches_before_hold);
  }

  std::shared_ptr<const PackedWeight> packed;
  Released released;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Key key(request.data, request.gemm.get(), request.transpose);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      // Packed for another user, or null: by another thread right now.
      packed = found->second.packed;
      pack = false;
    }
    if (pointer_changed || pack) SweepLocked(&released);
    if (pack && request.gemm->packed_bytes() > budget_bytes_) pack = false;
    if (pack) entries_[key].gemm = request.gemm;  // "being packed"
  }
  released.clear();
  const bool hit = packed != nullptr;
  if (pack) packed = PackAndInsert(request, hold);
  if (packed == nullptr) {
    misses_.fetch_add(1, std::memory_order_relaxed);
    if (!pack) return nullptr;
    // What failed once is not tried at every launch.
    const std::lock_guard<std::mutex> lock(slot->mutex);
    slot->launches = 0;
    slot->launches_before_hold =
        std::min(2 * slot->launches_before_hold, kMaxLaunchesBeforeHold);
    return nullptr;
  }
  {
    const std::lock_guard<std::mutex> lock(slot->mutex);
    if (slot->pointer == request.data) {
      slot->packed = packed;
      slot->has_held = true;
    }
  }
  if (hit) return Use(std::move(packed));
  misses_.fetch_add(1, std::memory_order_relaxed);
  return packed;
}

std::shared_ptr<const PackedWeight> WeightCache::PackAndInsert(
    const Request& request, HoldFn hold) {
  const Key key(request.data, request.gemm.get(), request.transpose);
  // Held before it is read: what is packed is what the pointer will mean.
  std::unique_ptr<BufferHold> held = hold();
  if (held == nullptr) {
    Fail(key, "the weight's buffer cannot be held");
    return nullptr;
  }
  std::shared_ptr<PackedWeight> packed(new PackedWeight(
      request.data, request.gemm->packed_bytes(), std::move(held)));
  if (packed->data_ == nullptr) {
    Fail(key, absl::StrCat("no memory for ", packed->size_bytes(),
                           " bytes of a packed weight"));
    return nullptr;
  }
  const absl::Status status = request.gemm->Pack(
      request.data, request.stored, request.transpose, packed->data_);
  if (!status.ok()) {
    Fail(key, std::string(status.message()));
    return nullptr;
  }
  packed->last_use_.store(clock_.fetch_add(1, std::memory_order_relaxed),
                          std::memory_order_relaxed);
  Released released;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counters_.packs;
  const auto entry = entries_.find(key);
  // Clear() came in between: this launch uses the weight, nobody else does.
  if (entry == entries_.end()) return packed;
  entry->second.packed = packed;
  counters_.bytes += packed->size_bytes();
  EvictLocked(&released);
  return packed;
}

void WeightCache::Fail(const Key& key, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry != entries_.end() && entry->second.packed == nullptr) {
    entries_.erase(entry);
  }
  ++counters_.failures;
  counters_.last_failure = why;
}

WeightCache::Entries::iterator WeightCache::RemoveLocked(
    Entries::iterator entry, Released* released) {
  counters_.bytes -= entry->second.packed->size_bytes();
  released->push_back(std::move(entry->second.packed));
  return entries_.erase(entry);
}

void WeightCache::SweepLocked(Released* released) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const PackedWeight* const packed = entry->second.packed.get();
    if (packed == nullptr || !packed->hold_->IsOnlyHolder()) {
      ++entry;
      continue;
    }
    ++counters_.released;
    entry = RemoveLocked(entry, released);
  }
}

void WeightCache::EvictLocked(Released* released) {
  while (counters_.bytes > budget_bytes_) {
    auto oldest = entries_.end();
    int64_t oldest_use = 0;
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      const PackedWeight* const packed = entry->second.packed.get();
      if (packed == nullptr) continue;
      const int64_t use = packed->last_use_.load(std::memory_order_relaxed);
      if (oldest == entries_.end() || use < oldest_use) {
        oldest = entry;
        oldest_use = use;
      }
    }
    if (oldest == entries_.end()) return;
    ++counters_.evictions;
    RemoveLocked(oldest, released);
  }
}

void WeightCache::Clear() {
  Entries cleared;  // destroyed after unlocking
  const std::lock_guard<std::mutex> lock(mutex_);
  cleared.swap(entries_);
  counters_.bytes = 0;
}

void WeightCache::SetBudget(int64_t budget_bytes) {
  Released released;
  const std::lock_guard<std::mutex> lock(mutex_);
  budget_bytes_ = budget_bytes;
  EvictLocked(&released);
}

void WeightCache::Sweep() {
  Released released;
  const std::lock_guard<std::mutex> lock(mutex_);
  SweepLocked(&released);
}

WeightCacheCounters WeightCache::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  WeightCacheCounters counters = counters_;
  counters.entries = static_cast<int64_t>(entries_.size());
  counters.hits = hits_.load(std::memory_order_relaxed);
  counters.misses = misses_.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace tf_disc
