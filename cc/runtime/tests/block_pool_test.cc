#include "cc/runtime/block_pool.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "cc/testing/check.h"

namespace tf_disc {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

bool IsResident(const void* data) {
  unsigned char there = 0;
  const auto page = reinterpret_cast<uintptr_t>(data) / 4096 * 4096;
  return mincore(reinterpret_cast<void*>(page), 1, &there) == 0 &&
         (there & 1) != 0;
}

TEST(BlocksAreLargeEnoughAndNotMuchLarger) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{511}, int64_t{512},
                        int64_t{513}, int64_t{576}, int64_t{577}, int64_t{1023},
                        int64_t{1024}, int64_t{1025}, 16 * kMegabyte - 1,
                        16 * kMegabyte, 16 * kMegabyte + 1, int64_t{1} << 46}) {
    const int64_t block = BlockPool::BlockBytes(bytes);
    EXPECT(block >= bytes);
    EXPECT(block <= 512 || block <= bytes + bytes / 8 + 64);
    EXPECT_EQ(block % BlockPool::kAlignment, 0);
    // A block's own size is its class.
    EXPECT_EQ(BlockPool::BlockBytes(block), block);
  }
  EXPECT_EQ(BlockPool::BlockBytes((int64_t{1} << 46) + 1), -1);
}

TEST(BlocksAreAlignedApartAndWritable) {
  BlockPool pool;
  std::vector<std::pair<char*, int64_t>> blocks;
  for (int64_t bytes = 1; bytes < 40 * kMegabyte; bytes = bytes * 3 + 5) {
    for (int i = 0; i < 2; ++i) {
      auto* data = static_cast<char*>(pool.Allocate(bytes));
      ASSERT(data != nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % BlockPool::kAlignment,
                uintptr_t{0});
      std::memset(data, static_cast<int>(blocks.size()),
                  static_cast<size_t>(bytes));
      blocks.emplace_back(data, bytes);
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [data, bytes] = blocks[i];
    EXPECT_EQ(data[0], static_cast<char>(i));
    EXPECT_EQ(data[bytes - 1], static_cast<char>(i));
    pool.Free(data);
  }
  EXPECT_EQ(pool.counters().used_bytes, 0);
}

TEST(TooMuchIsNull) {
  BlockPool pool;
  EXPECT(pool.Allocate((int64_t{1} << 46) + 1) == nullptr);
  // More than any address space here.
  EXPECT(pool.Allocate(int64_t{1} << 46) == nullptr);
  EXPECT_EQ(pool.counters().used_bytes, 0);
}

TEST(AFreedBlockComesBackWithItsPages) {
  BlockPool pool;
  void* const first = pool.Allocate(16 * kMegabyte);
  std::memset(first, 1, 16 * kMegabyte);
  pool.Free(first);
  EXPECT_EQ(pool.counters().kept_bytes, 16 * kMegabyte);
  EXPECT(IsResident(first));
  // A little less is the same size.
  void* const second = pool.Allocate(16 * kMegabyte - 1000);
  EXPECT_EQ(first, second);
  EXPECT_EQ(static_cast<char*>(second)[kMegabyte], 1);
  EXPECT_EQ(pool.counters().kept_bytes, 0);
  EXPECT_EQ(pool.counters().used_bytes, 16 * kMegabyte);
  EXPECT_EQ(pool.counters().reused, 1);
  EXPECT_EQ(pool.counters().fresh, 1);
  pool.Free(second);
}

TEST(TheLatestFreedIsHandedOutFirst) {
  BlockPool pool;
  void* const a = pool.Allocate(1000);
  void* const b = pool.Allocate(1000);
  pool.Free(a);
  pool.Free(b);
  EXPECT_EQ(pool.Allocate(1000), b);
  EXPECT_EQ(pool.Allocate(1000), a);
  pool.Free(a);
  pool.Free(b);
}

TEST(TheCapBoundsWhatIsKept) {
  BlockPool pool(5 * kMegabyte);
  void* const a = pool.Allocate(4 * kMegabyte);
  void* const b = pool.Allocate(4 * kMegabyte);
  void* const c = pool.Allocate(kMegabyte);
  pool.Free(a);
  pool.Free(b);
  pool.Free(c);
  EXPECT_EQ(pool.counters().kept_bytes, 5 * kMegabyte);
  EXPECT_EQ(pool.counters().dropped, 1);
  EXPECT(!IsResident(b));
  pool.SetCap(4 * kMegabyte);
  EXPECT_EQ(pool.counters().kept_bytes, kMegabyte);
  EXPECT_EQ(pool.counters().dropped, 2);
  EXPECT(!IsResident(a));
  pool.SetCap(0);
  EXPECT_EQ(pool.counters().kept_bytes, 0);
  pool.Free(pool.Allocate(100));
  EXPECT_EQ(pool.counters().kept_bytes, 0);
}

TEST(TrimGivesBackWhatNobodyTook) {
  BlockPool pool;
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.Allocate(2 * kMegabyte));
  for (void* block : blocks) {
    std::memset(block, 1, 2 * kMegabyte);
    pool.Free(block);
  }
  pool.Trim();  // They came since the last one.
  EXPECT_EQ(pool.counters().kept_bytes, 8 * kMegabyte);
  void* const one = pool.Allocate(2 * kMegabyte);
  pool.Free(pool.Allocate(2 * kMegabyte));
  pool.Free(one);
  pool.Trim();
  EXPECT_EQ(pool.counters().kept_bytes, 4 * kMegabyte);
  EXPECT_EQ(pool.counters().trimmed, 2);
  // The ones that were in use stay.
  EXPECT(!IsResident(blocks[0]));
  EXPECT(IsResident(one));
  pool.Trim();
  EXPECT_EQ(pool.counters().kept_bytes, 0);
  EXPECT_EQ(pool.counters().trimmed, 4);
}

TEST(ClearGivesBackAllAndHarmsNoOwner) {
  BlockPool pool;
  auto* const used = static_cast<char*>(pool.Allocate(3 * kMegabyte));
  pool.Free(pool.Allocate(3 * kMegabyte));
  pool.Clear();
  EXPECT_EQ(pool.counters().kept_bytes, 0);
  std::memset(used, 7, 3 * kMegabyte);
  pool.Free(used);
  EXPECT_EQ(pool.counters().kept_bytes, 3 * kMegabyte);
}

// Blocks change threads: each thread frees what another allocated, and no block
// is ever two threads' at once.
TEST(ThreadsNeverShareABlock) {
  BlockPool pool(2 * kMegabyte);
  constexpr int kThreads = 4;
  constexpr int kSlots = 32;
  std::atomic<int*> slots[kSlots] = {};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 20000; ++i) {
        const int64_t bytes = int64_t{4} << (random() % 18);
        auto* const mine = static_cast<int*>(pool.Allocate(bytes));
        *mine = t * 100000 + i;
        std::this_thread::yield();
        if (*mine != t * 100000 + i) ++wrong;
        pool.Free(slots[random() % kSlots].exchange(mine));
        if (i % 1000 == 0) pool.Trim();
        if (i % 1500 == 0) pool.SetCap((i % 3) * kMegabyte);
        if (i % 5000 == 0) pool.Clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<int*>& slot : slots) pool.Free(slot.load());
  EXPECT_EQ(wrong.load(), 0);
  const BlockPoolCounters counters = pool.counters();
  EXPECT_EQ(counters.used_bytes, 0);
  EXPECT_EQ(counters.reused + counters.fresh, int64_t{kThreads} * 20000);
  pool.Clear();
  EXPECT_EQ(pool.counters().kept_bytes, 0);
}

}  // namespace
}  // namespace tf_disc
