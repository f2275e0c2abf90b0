// Memory of outputs, arenas and scratch, kept between launches: a block that is
// freed serves the next request of about its size, with its pages in place
// (docs/adr/0022).
#ifndef TF_DISC_CC_RUNTIME_BLOCK_POOL_H_
#define TF_DISC_CC_RUNTIME_BLOCK_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace tf_disc {

// Since the pool was made, but for the first three.
struct BlockPoolCounters {
  int64_t cap_bytes = 0;
  int64_t used_bytes = 0;  // of blocks that are handed out
  int64_t kept_bytes = 0;  // of blocks that wait for the next request
  int64_t reused = 0;      // requests that a kept block served
  int64_t fresh = 0;       // requests that the system served
  int64_t dropped = 0;     // blocks given back to the system for the cap
  int64_t trimmed = 0;     // blocks given back since nobody used them
};

// Thread-safe: a block may be freed on any thread.
class BlockPool {
 public:
  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t kDefaultCapBytes = int64_t{512} << 20;

  // The process's own; never destroyed, since a tensor may outlive everything.
  static BlockPool& Global();

  // Bytes that may be kept, above 0. Handing out has no bound: a block's owner
  // is a tensor or a launch, as with any allocator.
  explicit BlockPool(int64_t cap_bytes = kDefaultCapBytes) : cap_(cap_bytes) {}
  // Every block must have been freed.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // At least `bytes` >= 0 of uninitialised memory, 64-byte aligned. Null if
  // there is no memory.
  void* Allocate(int64_t bytes);
  // A block of this pool's Allocate. Null does nothing.
  void Free(void* block);

  // 0: nothing is kept. Gives back at once what is beyond the new cap.
  void SetCap(int64_t bytes);
  int64_t cap() const { return cap_.load(std::memory_order_relaxed); }

  // Gives back the blocks that no request needed since the call before: of each
  // size, as many as were never taken. Called now and then.
  void Trim();
  // Gives back every kept block.
  void Clear();

  BlockPoolCounters counters() const;

  // The bytes that a request of `bytes` gets: at most an eighth more, but for
  // the smallest. -1 for a size that no block has.
  static int64_t BlockBytes(int64_t bytes);

 private:
  struct Header;

  // Eight sizes from one power of two to the next, 512 bytes to 64 TB. Each is
  // a multiple of kAlignment.
  static constexpr int kLeastBits = 9;
  static constexpr int kMostBits = 46;
  static constexpr int kStepBits = 3;
  static constexpr int kNumClasses =
      ((kMostBits - kLeastBits) << kStepBits) + 1;

  // Blocks of one size. The latest freed is the first handed out: its content
  // may still be in a cache.
  struct alignas(64) SizeClass {
    mutable std::mutex mutex;
    // All below is guarded by mutex.
    Header* kept = nullptr;
    int64_t num_kept = 0;
    int64_t least_kept = 0;  // since the latest Trim
    int64_t num_used = 0;
    int64_t reused = 0;
    int64_t fresh = 0;
    int64_t dropped = 0;
    int64_t trimmed = 0;
  };

  static int ClassOf(int64_t bytes);
  static int64_t ClassBytes(int size_class);
  // A new block of a class, or null.
  static Header* Obtain(int size_class);
  static void GiveBack(Header* block);
  static int64_t GiveBackAll(Header* blocks);
  // Takes all but the latest `num_left` kept blocks. Needs `size_class.mutex`.
  Header* Detach(int64_t num_left, int64_t block_bytes, SizeClass* size_class);

  std::atomic<int64_t> cap_;
  std::atomic<int64_t> kept_bytes_{0};
  std::array<SizeClass, kNumClasses> classes_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_BLOCK_POOL_H_
