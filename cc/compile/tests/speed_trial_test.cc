#include "cc/compile/speed_trial.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cc/base/striped_counts.h"
#include "cc/ops/running_launches.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

constexpr int64_t kUs = 1000;

// Makes `calls` calls of which each way takes what the functions say. Returns
// how many went to TensorFlow.
int64_t Call(SpeedTrial* trial, int64_t calls,
             const std::function<int64_t()>& kernel_ns,
             const std::function<int64_t()>& function_ns,
             bool undisturbed = true) {
  int64_t left = 0;
  for (int64_t i = 0; i < calls; ++i) {
    TrialCall call = trial->Begin();
    const bool is_left = call.way() == Way::kFunction;
    left += is_left ? 1 : 0;
    if (call.is_timed()) {
      call.Finish(is_left ? function_ns() : kernel_ns(), undisturbed);
    }
  }
  return left;
}

int64_t Call(SpeedTrial* trial, int64_t calls, int64_t kernel_us,
             int64_t function_us, bool undisturbed = true) {
  return Call(
      trial, calls, [=] { return kernel_us * kUs; },
      [=] { return function_us * kUs; }, undisturbed);
}

TEST(AFasterKernelIsUsed) {
  SpeedTrial trial;
  const int64_t left = Call(&trial, 1000, 50, 100);
  EXPECT_EQ(left, SpeedTrial::kBlock);
  const SpeedTrial::Snapshot snapshot = trial.snapshot();
  EXPECT(snapshot.settled);
  EXPECT(snapshot.way == Way::kKernel);
  EXPECT_EQ(snapshot.calls, 1000);
  EXPECT_EQ(snapshot.checks, 1);
  EXPECT_EQ(snapshot.kernel.median_ns, 50 * kUs);
  EXPECT_EQ(snapshot.function.median_ns, 100 * kUs);
  EXPECT_EQ(snapshot.function.count, SpeedTrial::kFew);
}

TEST(ASlowerKernelIsLeft) {
  SpeedTrial trial;
  const int64_t left = Call(&trial, 1000, 120, 100);
  const SpeedTrial::Snapshot snapshot = trial.snapshot();
  EXPECT(snapshot.way == Way::kFunction);
  EXPECT_EQ(snapshot.kernel.count, SpeedTrial::kToLose);
  // Before that, the kernel warmed up and had its blocks.
  EXPECT_EQ(left, 1000 - SpeedTrial::kWarmUp - 4 * SpeedTrial::kBlock);
}

// Another program has the processors for a while, again and again.
TEST(ABusyMachineIsNoLoss) {
  int left = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    std::minstd_rand random(seed);
    int64_t factor = 1;
    const auto busy = [&](int64_t us) {
      if (random() % 8 == 0) factor = factor == 1 ? 3 : 1;
      return us * factor * kUs;
    };
    SpeedTrial trial;
    Call(&trial, 1000, [&] { return busy(100); }, [&] { return busy(110); });
    left += trial.snapshot().way == Way::kFunction ? 1 : 0;
  }
  EXPECT(left <= 10);
}

TEST(ALossWithinNoiseIsNone) {
  for (const auto& [kernel_us, function_us] :
       {std::make_pair(104, 100), std::make_pair(5, 3)}) {
    SpeedTrial trial;
    Call(&trial, 1000, kernel_us, function_us);
    EXPECT(trial.snapshot().settled);
    EXPECT(trial.snapshot().way == Way::kKernel);
  }
}

TEST(ColdRunsAreNotCounted) {
  SpeedTrial trial;
  int kernel_runs = 0;
  int function_runs = 0;
  Call(
      &trial, 100, [&] { return (kernel_runs++ < 5 ? 90000 : 50) * kUs; },
      [&] { return (function_runs++ < 1 ? 1 : 100) * kUs; });
  const SpeedTrial::Snapshot snapshot = trial.snapshot();
  EXPECT(snapshot.way == Way::kKernel);
  EXPECT_EQ(snapshot.kernel.median_ns, 50 * kUs);
  EXPECT_EQ(snapshot.function.min_ns, 100 * kUs);
}

// A scheduler that takes the processor away now and then never makes a kernel
// lose, and seldom hides a loss (until the next check).
TEST(SpikesChangeNoVerdict) {
  const auto left_of = [](int64_t kernel_us, int64_t function_us) {
    int left = 0;
    for (unsigned seed = 1; seed <= 200; ++seed) {
      std::minstd_rand random(seed);
      const auto spiky = [&](int64_t us) {
        return (random() % 5 == 0 ? us * 20 : us + us * (random() % 8) / 100) *
               kUs;
      };
      SpeedTrial trial;
      Call(
          &trial, 1000, [&] { return spiky(kernel_us); },
          [&] { return spiky(function_us); });
      left += trial.snapshot().way == Way::kFunction ? 1 : 0;
    }
    return left;
  };
  EXPECT_EQ(left_of(100, 130), 0);
  EXPECT_EQ(left_of(100, 100), 0);
  EXPECT(left_of(150, 100) >= 190);
}

// Calls of one class differ in size by up to two; a kernel that is faster at
// each of them stays.
TEST(ManySizesOfAClassAreNoLoss) {
  int left = 0;
  for (int seed = 0; seed < 500; ++seed) {
    std::minstd_rand random(static_cast<unsigned>(seed) + 1);
    const auto sized = [&](int64_t us) {
      return us * kUs * (100 + static_cast<int64_t>(random() % 100)) / 100;
    };
    SpeedTrial trial;
    Call(&trial, 1000, [&] { return sized(100); }, [&] { return sized(120); });
    left += trial.snapshot().way == Way::kFunction ? 1 : 0;
  }
  EXPECT(left <= 5);
}

TEST(TimesBesideTheCompileSettleAClearCase) {
  SpeedTrial trial;
  for (int i = 0; i < 20; ++i) {
    // The first instantiates the function.
    trial.BeginWithoutKernel().Finish((i == 0 ? 1 : 1000) * kUs, false);
  }
  EXPECT_EQ(trial.snapshot().function.count, 16);
  EXPECT(!trial.snapshot().settled);
  EXPECT_EQ(Call(&trial, 1000, 300, 1000), 0);
  EXPECT(trial.snapshot().settled);
  EXPECT_EQ(trial.snapshot().function.min_ns, 1000 * kUs);
}

// The compile took a processor: what TensorFlow took meanwhile must not make a
// slow kernel look fast.
TEST(TimesBesideTheCompileSettleNothingElse) {
  SpeedTrial trial;
  for (int i = 0; i < 20; ++i) {
    trial.BeginWithoutKernel().Finish(200 * kUs, false);
  }
  Call(&trial, 1000, 120, 100);
  EXPECT(trial.snapshot().way == Way::kFunction);
  EXPECT_EQ(trial.snapshot().function.median_ns, 100 * kUs);
}

TEST(AFunctionThatEndsAfterTheKernelCameIsNotCounted) {
  SpeedTrial trial;
  trial.BeginWithoutKernel().Finish(kUs, false);
  TrialCall late = trial.BeginWithoutKernel();
  {
    const TrialCall first = trial.Begin();
  }
  late.Finish(kUs, true);
  EXPECT_EQ(trial.snapshot().function.count, 0);
}

TEST(DisturbedRunsHaveToDoAfterManyTurns) {
  SpeedTrial slow;
  const int64_t left = Call(&slow, SpeedTrial::kMaxTurns - 1, 200, 100, false);
  EXPECT(!slow.snapshot().settled);
  EXPECT(left <= SpeedTrial::kMaxTurns / 2);
  Call(&slow, 100, 200, 100, false);
  EXPECT(slow.snapshot().settled);
  EXPECT(slow.snapshot().way == Way::kFunction);
  // They take more to lose by.
  SpeedTrial close;
  Call(&close, 1000, 115, 100, false);
  EXPECT(close.snapshot().settled);
  EXPECT(close.snapshot().way == Way::kKernel);
}

TEST(DisturbedRunsAreNotMixedWithOthers) {
  SpeedTrial trial;
  int runs = 0;
  for (int i = 0; i < 200; ++i) {
    TrialCall call = trial.Begin();
    if (!call.is_timed()) continue;
    // Two of three runs of the kernel have company.
    const bool is_disturbed = call.way() == Way::kKernel && runs++ % 3 != 0;
    call.Finish((is_disturbed                 ? 500
                 : call.way() == Way::kKernel ? 80
                                              : 100) *
                    kUs,
                !is_disturbed);
  }
  EXPECT(trial.snapshot().way == Way::kKernel);
  EXPECT_EQ(trial.snapshot().kernel.median_ns, 80 * kUs);
}

TEST(OnlyOneCallHasTheTurn) {
  SpeedTrial trial;
  TrialCall first = trial.Begin();
  TrialCall second = trial.Begin();
  EXPECT(first.is_timed());
  EXPECT(!second.is_timed());
  EXPECT(second.way() == Way::kKernel);
  first = TrialCall();  // a run that failed
  EXPECT(trial.Begin().is_timed());
}

TEST(RunsThatFailSettleNothingAndEnd) {
  SpeedTrial trial;
  int64_t timed = 0;
  for (int i = 0; i < 1000; ++i) timed += trial.Begin().is_timed() ? 1 : 0;
  EXPECT(trial.snapshot().settled);
  EXPECT(trial.snapshot().way == Way::kKernel);
  EXPECT(timed <= SpeedTrial::kMaxTurns + 2 * SpeedTrial::kBlock);
}

TEST(AVerdictIsCheckedAgainAndChanges) {
  SpeedTrial trial;
  Call(&trial, 1000, 150, 100);
  EXPECT(trial.snapshot().way == Way::kFunction);
  // Its weights are packed by now, or the machine is another.
  Call(&trial, 2 * SpeedTrial::kFirstCheck, 50, 100);
  EXPECT(trial.snapshot().way == Way::kKernel);
  EXPECT_EQ(trial.snapshot().checks, 2);
  Call(&trial, 4 * SpeedTrial::kFirstCheck, 150, 100);
  EXPECT(trial.snapshot().way == Way::kFunction);
}

TEST(ATieNeverFlaps) {
  std::minstd_rand random(7);
  const auto time = [&] {
    return static_cast<int64_t>(100 + random() % 10) * kUs;
  };
  for (const auto& [kernel_us, way] : {std::make_pair(150, Way::kFunction),
                                       std::make_pair(50, Way::kKernel)}) {
    SpeedTrial trial;
    Call(&trial, 1000, kernel_us, 100);
    Call(&trial, 1000000, time, time);
    EXPECT(trial.snapshot().checks >= 4);
    EXPECT(trial.snapshot().way == way);
  }
}

// However slow the slower way is, trying it again takes less than a hundredth
// of all time.
TEST(ChecksCostLittle) {
  for (const auto& [kernel_us, function_us] :
       {std::make_pair(100, 100000), std::make_pair(100000, 100),
        std::make_pair(200, 100), std::make_pair(100, 200)}) {
    SpeedTrial trial;
    Call(&trial, 100, kernel_us, function_us);
    const int64_t best = std::min(kernel_us, function_us);
    const int64_t calls = 10000000;
    const int64_t left = Call(&trial, calls, kernel_us, function_us);
    const int64_t spent =
        left * function_us + (calls - left) * kernel_us - calls * best;
    EXPECT(trial.snapshot().checks >= 2);
    EXPECT(static_cast<double>(spent) <
           0.01 * static_cast<double>(calls * best));
  }
}

TEST(SizeClassesAreOctaves) {
  EXPECT_EQ(SpeedTrials::SizeClass(0), 0);
  EXPECT_EQ(SpeedTrials::SizeClass(1), 1);
  EXPECT_EQ(SpeedTrials::SizeClass(1023), 10);
  EXPECT_EQ(SpeedTrials::SizeClass(1024), 11);
  EXPECT_EQ(SpeedTrials::SizeClass(INT64_MAX), SpeedTrials::kNumClasses - 1);
  SpeedTrials trials;
  EXPECT(trials.Find(3) == nullptr);
  SpeedTrial& made = trials.Of(3);
  EXPECT(&trials.Of(3) == &made);
  EXPECT(trials.Find(3) == &made);
  EXPECT(&trials.Of(SpeedTrials::kNumClasses - 1) != &made);
}

// Also what a thread sanitizer looks at.
TEST(ManyThreads) {
  SpeedTrials trials;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30000; ++i) {
        SpeedTrial& trial = trials.Of(i % 3);
        if (i < 10) trial.BeginWithoutKernel().Finish(100 * kUs, false);
        RunningLaunch running(/*asks=*/true);
        TrialCall call = trial.Begin();
        if (i % 1000 == 0) trial.snapshot();
        if (!call.is_timed() || (i + t) % 50 == 0) continue;
        const int64_t us = call.way() == Way::kKernel ? 300 : 100;
        call.Finish(us * kUs, running.End());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(trials.Of(c).snapshot().calls, 80000);
    EXPECT(trials.Of(c).snapshot().way == Way::kFunction);
  }
}

TEST(LaunchesSeeEachOther) {
  RunningLaunch alone(/*asks=*/true);
  EXPECT(alone.End());
  RunningLaunch outer(/*asks=*/true);
  {
    RunningLaunch inner(/*asks=*/true);
    EXPECT(!inner.End());
  }
  EXPECT(!outer.End());
  {
    RunningLaunch unended(/*asks=*/false);
  }
  RunningLaunch after(/*asks=*/true);
  EXPECT(after.End());
}

// Threads have states of their own; each sees the others' all the same.
TEST(LaunchesOfOtherThreadsAreSeen) {
  const auto elsewhere = [](const std::function<void()>& run) {
    std::thread(run).join();
  };
  for (int i = 0; i < 2 * kStripes; ++i) {
    RunningLaunch outer(/*asks=*/true);
    elsewhere([] { RunningLaunch short_one(/*asks=*/false); });
    EXPECT(!outer.End());
    auto earlier = std::make_unique<RunningLaunch>(/*asks=*/false);
    elsewhere([&] {
      RunningLaunch inner(/*asks=*/true);
      // Ends on another thread than it began on.
      earlier.reset();
      EXPECT(!inner.End());
    });
    elsewhere([] {
      RunningLaunch alone(/*asks=*/true);
      EXPECT(alone.End());
    });
  }
}

TEST(CountsOfAllThreadsAreSummed) {
  LaunchCounts counts;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3 * kStripes; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        counts.AddCall();
        counts.AddKernelRun(5);
      }
      counts.RemoveCall();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts.calls(), 3 * kStripes * 999);
  EXPECT_EQ(counts.kernel_runs(), 3 * kStripes * 1000);
  EXPECT_EQ(counts.kernel_ns(), 3 * kStripes * 5000);
  counts.Reset();
  EXPECT_EQ(counts.calls() + counts.kernel_runs() + counts.kernel_ns(), 0);
}

}  // namespace
}  // namespace tf_disc
