#include "cc/runtime/parallel_for.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cc/runtime/mxcsr.h"
#include "cc/runtime/tests/pool_host.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::PoolHost;
using testing::ThreadPool;

constexpr int64_t kDear = 1000000;  // ns an item: never inline

// Runs a loop that checks all that ParallelFor promises about ranges.
void CheckLoop(Host* host, int slots, int64_t count, int64_t grain,
               int64_t cost) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  std::vector<std::atomic<int>> busy(static_cast<size_t>(slots));
  std::atomic<int> wrong{0};
  const int32_t status =
      ParallelFor(host, "check", slots, count, grain, cost,
                  [&](int64_t begin, int64_t end, int32_t slot) -> int32_t {
                    const bool ok = begin >= 0 && begin < end && end <= count &&
                                    begin % grain == 0 &&
                                    (end % grain == 0 || end == count) &&
                                    slot >= 0 && slot < slots;
                    if (!ok) {
                      ++wrong;
                      return DISC_OK;
                    }
                    if (busy[slot].fetch_add(1) != 0) ++wrong;
                    for (int64_t i = begin; i < end; ++i) ++seen[i];
                    busy[slot].fetch_sub(1);
                    return DISC_OK;
                  });
  EXPECT_EQ(status, DISC_OK);
  EXPECT_EQ(wrong.load(), 0);
  int not_once = 0;
  for (const auto& times : seen) not_once += times != 1;
  EXPECT_EQ(not_once, 0);
}

TEST(PlanKeepsSmallLoopsInline) {
  EXPECT_EQ(PlanLoop(100, 1, 100, 8).participants, 1);        // 10 us
  EXPECT_EQ(PlanLoop(100, 1, 590, 8).participants, 1);        // 59 us
  EXPECT_EQ(PlanLoop(100, 1, 900, 8).participants, 3);        // 90 us
  EXPECT_EQ(PlanLoop(100, 1, 1000000, 8).participants, 8);    // 100 ms
  EXPECT_EQ(PlanLoop(100, 1, 90, 8, true).participants, 1);   // 9 us
  EXPECT_EQ(PlanLoop(100, 1, 150, 8, true).participants, 3);  // 15 us
  EXPECT_EQ(PlanLoop(100, 1, 1000000, 1).participants, 1);
  EXPECT_EQ(PlanLoop(64, 64, 1000000, 8).participants, 1);
  EXPECT_EQ(PlanLoop(65, 64, 1000000, 8).participants, 2);
  EXPECT_EQ(PlanLoop(0, 1, 1000, 8).participants, 1);
  // Wild numbers do not overflow.
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(PlanLoop(huge, 1, huge, 8).participants, 8);
  EXPECT_EQ(PlanLoop(10, huge, huge, 8).participants, 1);
  EXPECT_EQ(PlanLoop(10, -5, -5, 8).participants, 1);
}

TEST(PlanRangesAreMultiplesOfGrain) {
  for (int64_t count : {2, 3, 64, 65, 1000, 12345}) {
    for (int64_t grain : {1, 2, 7, 64, 1000}) {
      for (int64_t cost : {1, 1000, 1000000}) {
        for (int slots : {1, 2, 3, 16}) {
          const LoopPlan plan = PlanLoop(count, grain, cost, slots);
          EXPECT(plan.participants >= 1 && plan.participants <= slots);
          EXPECT(plan.range_items == count || plan.range_items % grain == 0);
          EXPECT(plan.range_items > 0);
        }
      }
    }
  }
}

TEST(EveryItemOnceWithAnyNumberOfThreads) {
  for (int threads : {0, 1, 2, 4}) {
    ThreadPool pool(threads);
    PoolHost host(&pool);
    for (int slots : {1, 2, 5}) {
      if (slots > 1 && threads == 0) continue;
      for (int64_t count : {0, 1, 3, 64, 1000}) {
        for (int64_t grain : {1, 3, 64}) {
          CheckLoop(&host, slots, count, grain, kDear);
          CheckLoop(&host, slots, count, grain, 1);
        }
      }
    }
  }
}

TEST(BusyPoolDelaysNothing) {
  ThreadPool pool(2);
  std::atomic<bool> release{false};
  for (int i = 0; i < 2; ++i) {
    pool.Schedule([&release] {
      while (!release) std::this_thread::yield();
    });
  }
  {
    // The host and everything that a loop uses go away before the pool gets to
    // the closures that were scheduled.
    PoolHost host(&pool);
    CheckLoop(&host, 2, 1000, 1, kDear);
    EXPECT_EQ(host.num_scheduled.load(), 1);
  }
  release = true;
}

TEST(LoopOnEveryThreadOfThePool) {
  ThreadPool pool(3);
  std::atomic<int> done{0};
  for (int i = 0; i < 30; ++i) {
    pool.Schedule([&] {
      PoolHost host(&pool);
      CheckLoop(&host, 3, 500, 7, kDear);
      ++done;
    });
  }
  while (done < 30) std::this_thread::yield();
}

TEST(ManyCallersAtOnce) {
  ThreadPool pool(2);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&pool, c] {
      for (int i = 0; i < 500; ++i) {
        PoolHost host(&pool);
        CheckLoop(&host, 3, 10 + i % 90, 1 + c, kDear);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(FirstErrorStopsTheLoop) {
  ThreadPool pool(2);
  PoolHost host(&pool);
  for (int slots : {1, 2}) {
    std::atomic<int> ranges{0};
    const int32_t status =
        ParallelFor(&host, "fails", slots, 100000, 1, kDear,
                    [&](int64_t begin, int64_t, int32_t) -> int32_t {
                      ++ranges;
                      return begin == 0 ? DISC_GUARD_FAILED : DISC_OK;
                    });
    EXPECT_EQ(status, DISC_GUARD_FAILED);
    EXPECT(ranges <= 8);
  }
}

TEST(NestedLoopRunsInlineInItsSlot) {
  ThreadPool pool(2);
  PoolHost host(&pool);
  std::atomic<int> wrong{0};
  std::atomic<int> items{0};
  ParallelFor(&host, "outer", 2, 8, 1, kDear,
              [&](int64_t, int64_t, int32_t slot) {
                const auto thread = std::this_thread::get_id();
                return ParallelFor(
                    &host, "inner", 2, 100, 1, kDear,
                    [&](int64_t begin, int64_t end, int32_t inner) -> int32_t {
                      wrong += inner != slot || begin != 0 || end != 100 ||
                               thread != std::this_thread::get_id();
                      ++items;
                      return DISC_OK;
                    });
              });
  EXPECT_EQ(wrong.load(), 0);
  // The outer loop's 8 items came in some ranges, one inner loop each.
  EXPECT(items >= 1 && items <= 8);
  // Afterwards this thread is outside a loop again.
  CheckLoop(&host, 2, 100, 1, kDear);
}

TEST(HelpersTakePart) {
  ThreadPool pool(1);
  PoolHost host(&pool);
  // Each participant waits for the other: with one alone this would hang.
  std::atomic<int> here{0};
  ParallelFor(&host, "meet", 2, 2, 1, kDear,
              [&](int64_t, int64_t, int32_t) -> int32_t {
                ++here;
                while (here < 2) std::this_thread::yield();
                return DISC_OK;
              });
  EXPECT_EQ(here.load(), 2);
}

TEST(WaitsForALongRangeOfAHelper) {
  ThreadPool pool(1);
  PoolHost host(&pool);
  std::atomic<int> here{0};
  std::atomic<bool> helper_done{false};
  const auto caller = std::this_thread::get_id();
  ParallelFor(&host, "long", 2, 2, 1, kDear,
              [&](int64_t, int64_t, int32_t) -> int32_t {
                ++here;
                while (here < 2) std::this_thread::yield();
                if (std::this_thread::get_id() != caller) {
                  // Longer than the caller spins: it has to be woken.
                  std::this_thread::sleep_for(std::chrono::milliseconds(20));
                  helper_done = true;
                }
                return DISC_OK;
              });
  EXPECT(helper_done.load());
}

TEST(KernelModeInsideOldModeOutside) {
  ThreadPool pool(1);
  PoolHost host(&pool);
  const unsigned before = _mm_getcsr();
  std::atomic<int> here{0};
  std::atomic<int> wrong{0};
  volatile float tiny = 1e-39f;
  ParallelFor(&host, "mode", 2, 2, 1, kDear,
              [&](int64_t, int64_t, int32_t) -> int32_t {
                ++here;
                while (here < 2) std::this_thread::yield();
                wrong += tiny * 1.0f != 0.0f;
                return DISC_OK;
              });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT(tiny * 1.0f != 0.0f);
  EXPECT_EQ(_mm_getcsr() & 0xffc0, before & 0xffc0);
}

TEST(EveryParticipantIsTraced) {
  ThreadPool pool(1);
  PoolHost host(&pool);
  host.tracing = true;
  std::atomic<int> here{0};
  ParallelFor(&host, "named", 2, 2, 1, kDear,
              [&](int64_t, int64_t, int32_t) -> int32_t {
                ++here;
                while (here < 2) std::this_thread::yield();
                return DISC_OK;
              });
  ParallelFor(&host, "inline", 1, 2, 1, 1,
              [](int64_t, int64_t, int32_t) -> int32_t { return DISC_OK; });
  ASSERT(host.traced.size() == 3);
  EXPECT_EQ(host.traced[0], "named");
  EXPECT_EQ(host.traced[2], "inline");
  EXPECT_EQ(host.num_open.load(), 0);
}

// As a run has them: many loops, one after the other, with pauses in which
// helpers go home and without, from several runs at once.
TEST(LoopsOfARunShareTheirHelpers) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&pool, caller] {
      PoolHost host(&pool);
      for (int run = 0; run < 40; ++run) {
        Crew crew(&host, 4);
        for (int loop = 0; loop < 30; ++loop) {
          const int64_t count = 1 + (caller * 7 + run * 31 + loop * 13) % 200;
          std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
          std::array<std::atomic<bool>, 4> busy = {};
          const bool fails = loop % 11 == 10;
          const int32_t status =
              crew.ParallelFor("loop", count, 1, 100000,
                               [&](int64_t begin, int64_t end, int32_t slot) {
                                 EXPECT(slot >= 0 && slot < 4);
                                 EXPECT(!busy[slot].exchange(true));
                                 for (int64_t i = begin; i < end; ++i)
                                   ++seen[i];
                                 busy[slot] = false;
                                 return fails ? DISC_GUARD_FAILED : DISC_OK;
                               });
          EXPECT_EQ(status, fails ? DISC_GUARD_FAILED : DISC_OK);
          int wrong = 0;
          for (const auto& times : seen)
            wrong += fails ? times > 1 : times != 1;
          EXPECT_EQ(wrong, 0);
          if (loop % 7 == 6) {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
          }
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// What waits for a closure to come late, after its run, finds nothing.
TEST(HelpersOfAnEndedRunGoHome) {
  ThreadPool pool(2);
  PoolHost host(&pool);
  for (int run = 0; run < 200; ++run) {
    std::atomic<int64_t> sum{0};
    {
      Crew crew(&host, 3);
      for (int loop = 0; loop < 3; ++loop) {
        crew.ParallelFor("loop", 50, 1, 10000,
                         [&](int64_t begin, int64_t end, int32_t) {
                           sum += end - begin;
                           return DISC_OK;
                         });
      }
    }
    EXPECT_EQ(sum.load(), 150);
  }
}

}  // namespace
}  // namespace tf_disc
