#include "cc/runtime/block_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tf_disc {
namespace {

// Smaller blocks come from malloc. From here on a mapping of its own costs
// little beside its page faults, and giving it back really gives it back.
constexpr size_t kMapFrom = size_t{1} << 20;
// From here on the kernel is asked for huge pages: 64 MB, fresh, are written in
// 9 ms instead of 32. At 1 MB clearing a whole huge page takes longer.
constexpr size_t kHugeFrom = size_t{4} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
// A mapped block's header has a page for itself, so that data begins on one.
constexpr size_t kPage = 4096;

size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

// Lies right before the data.
struct alignas(BlockPool::kAlignment) BlockPool::Header {
  int size_class;
  void* memory;   // what the system gave
  size_t mapped;  // bytes of the mapping; 0: from malloc
  Header* next;   // of the kept ones

  void* data() { return this + 1; }
};

BlockPool& BlockPool::Global() {
  static BlockPool* pool = new BlockPool;
  return *pool;
}

BlockPool::~BlockPool() { Clear(); }

int BlockPool::ClassOf(int64_t bytes) {
  if (bytes <= int64_t{1} << kLeastBits) return 0;
  if (bytes > int64_t{1} << kMostBits) return -1;
  // The power of two below the last byte, and its step above that.
  const auto last = static_cast<uint64_t>(bytes - 1);
  const int bits = 63 - __builtin_clzll(last);
  const int step =
      static_cast<int>(last >> (bits - kStepBits)) & ((1 << kStepBits) - 1);
  return ((bits - kLeastBits) << kStepBits) + step + 1;
}

int64_t BlockPool::ClassBytes(int size_class) {
  const int bits = kLeastBits + (size_class >> kStepBits);
  const int64_t steps =
      (1 << kStepBits) + (size_class & ((1 << kStepBits) - 1));
  return steps << (bits - kStepBits);
}

int64_t BlockPool::BlockBytes(int64_t bytes) {
  const int size_class = ClassOf(bytes);
  return size_class < 0 ? -1 : ClassBytes(size_class);
}

BlockPool::Header* BlockPool::Obtain(int size_class) {
  const auto bytes = static_cast<size_t>(ClassBytes(size_class));
  if (bytes < kMapFrom) {
    void* const memory = std::aligned_alloc(kAlignment, sizeof(Header) + bytes);
    if (memory == nullptr) return nullptr;
    return new (memory) Header{size_class, memory, 0, nullptr};
  }
  const size_t slack = bytes < kHugeFrom ? 0 : kHugePage - kPage;
  size_t mapped = slack + kPage + RoundUp(bytes, kPage);
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (slack > 0) {
    // The data begins a huge page; of what lies before it, one page stays.
    char* const first = static_cast<char*>(memory);
    const auto address = reinterpret_cast<uintptr_t>(first);
    const size_t skipped =
        RoundUp(address + kPage, kHugePage) - kPage - address;
    if (skipped > 0) munmap(first, skipped);
    memory = first + skipped;
    mapped -= skipped;
    // Where the system has none, small pages are as good.
    madvise(first + skipped + kPage, mapped - kPage, MADV_HUGEPAGE);
  }
  void* const header = static_cast<char*>(memory) + kPage - sizeof(Header);
  return new (header) Header{size_class, memory, mapped, nullptr};
}

void BlockPool::GiveBack(Header* block) {
  if (block->mapped > 0) {
    munmap(block->memory, block->mapped);
  } else {
    std::free(block->memory);
  }
}

int64_t BlockPool::GiveBackAll(Header* blocks) {
  int64_t count = 0;
  while (blocks != nullptr) {
    Header* const next = blocks->next;
    GiveBack(blocks);
    blocks = next;
    ++count;
  }
  return count;
}

void* BlockPool::Allocate(int64_t bytes) {
  const int index = ClassOf(bytes);
  if (index < 0) return nullptr;
  SizeClass& size_class = classes_[index];
  {
    const std::lock_guard<std::mutex> lock(size_class.mutex);
    ++size_class.num_used;
    Header* const block = size_class.kept;
    if (block != nullptr) {
      size_class.kept = block->next;
      --size_class.num_kept;
      if (size_class.num_kept < size_class.least_kept) {
        size_class.least_kept = size_class.num_kept;
      }
      ++size_class.reused;
      kept_bytes_.fetch_sub(ClassBytes(index), std::memory_order_relaxed);
      return block->data();
    }
    ++size_class.fresh;
  }
  Header* const block = Obtain(index);
  if (block != nullptr) return block->data();
  const std::lock_guard<std::mutex> lock(size_class.mutex);
  --size_class.num_used;
  return nullptr;
}

void BlockPool::Free(void* block) {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  const int64_t bytes = ClassBytes(header->size_class);
  SizeClass& size_class = classes_[header->size_class];
  {
    const std::lock_guard<std::mutex> lock(size_class.mutex);
    --size_class.num_used;
    const int64_t kept =
        kept_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (kept <= cap()) {
      header->next = size_class.kept;
      size_class.kept = header;
      ++size_class.num_kept;
      return;
    }
    kept_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    ++size_class.dropped;
  }
  GiveBack(header);
}

BlockPool::Header* BlockPool::Detach(int64_t num_left, int64_t block_bytes,
                                     SizeClass* size_class) {
  Header** end = &size_class->kept;
  for (int64_t i = 0; i < num_left; ++i) end = &(*end)->next;
  Header* const detached = *end;
  *end = nullptr;
  kept_bytes_.fetch_sub((size_class->num_kept - num_left) * block_bytes,
                        std::memory_order_relaxed);
  size_class->num_kept = num_left;
  return detached;
}

void BlockPool::Trim() {
  for (int i = 0; i < kNumClasses; ++i) {
    SizeClass& size_class = classes_[i];
    Header* unused = nullptr;
    {
      const std::lock_guard<std::mutex> lock(size_class.mutex);
      const int64_t num_left = size_class.num_kept - size_class.least_kept;
      size_class.trimmed += size_class.least_kept;
      unused = Detach(num_left, ClassBytes(i), &size_class);
      size_class.least_kept = size_class.num_kept;
    }
    GiveBackAll(unused);
  }
}

void BlockPool::Clear() {
  for (int i = 0; i < kNumClasses; ++i) {
    SizeClass& size_class = classes_[i];
    Header* kept = nullptr;
    {
      const std::lock_guard<std::mutex> lock(size_class.mutex);
      size_class.trimmed += size_class.num_kept;
      kept = Detach(0, ClassBytes(i), &size_class);
      size_class.least_kept = 0;
    }
    GiveBackAll(kept);
  }
}

void BlockPool::SetCap(int64_t bytes) {
  cap_.store(bytes, std::memory_order_relaxed);
  // The largest first: they are what the cap is about.
  for (int i = kNumClasses - 1; i >= 0; --i) {
    const int64_t beyond = kept_bytes_.load(std::memory_order_relaxed) - bytes;
    if (beyond <= 0) return;
    SizeClass& size_class = classes_[i];
    const int64_t block_bytes = ClassBytes(i);
    Header* given = nullptr;
    {
      const std::lock_guard<std::mutex> lock(size_class.mutex);
      const int64_t wanted = (beyond - 1) / block_bytes + 1;
      const int64_t num_left =
          wanted < size_class.num_kept ? size_class.num_kept - wanted : 0;
      size_class.dropped += size_class.num_kept - num_left;
      given = Detach(num_left, block_bytes, &size_class);
      if (num_left < size_class.least_kept) size_class.least_kept = num_left;
    }
    GiveBackAll(given);
  }
}

BlockPoolCounters BlockPool::counters() const {
  BlockPoolCounters counters;
  counters.cap_bytes = cap();
  for (int i = 0; i < kNumClasses; ++i) {
    const SizeClass& size_class = classes_[i];
    const std::lock_guard<std::mutex> lock(size_class.mutex);
    counters.used_bytes += size_class.num_used * ClassBytes(i);
    counters.kept_bytes += size_class.num_kept * ClassBytes(i);
    counters.reused += size_class.reused;
    counters.fresh += size_class.fresh;
    counters.dropped += size_class.dropped;
    counters.trimmed += size_class.trimmed;
  }
  return counters;
}

}  // namespace tf_disc
