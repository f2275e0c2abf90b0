#include "cc/runtime/weight_cache.h"

#include <cstring>
#include <thread>
#include <vector>

#include "cc/runtime/tests/pool_host.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::TestHold;

// Packs by copying, so that these tests need no oneDNN.
class CopyGemm : public PackedGemm {
 public:
  explicit CopyGemm(int64_t elements) : elements_(elements) {}
  bool can_pack() const override { return true; }
  int64_t packed_bytes() const override { return elements_ * 4; }
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Pack(const void* weight, disc_dtype, bool,
                    void* packed) const override {
    while (blocked) std::this_thread::yield();
    if (fails) return absl::InternalError("packing failed");
    ++packs;
    std::memcpy(packed, weight, static_cast<size_t>(packed_bytes()));
    return absl::OkStatus();
  }
  absl::Status Run(int64_t, int64_t, int64_t, const void*, int64_t, const void*,
                   float*, int64_t, void*) const override {
    return absl::UnimplementedError("not in this test");
  }

  mutable std::atomic<int> packs{0};
  mutable std::atomic<bool> blocked{false};
  bool fails = false;

 private:
  const int64_t elements_;
};

// A variable as TensorFlow has it: a write while its buffer is held gives it a
// new one, otherwise it writes in place.
struct Variable {
  explicit Variable(float value)
      : buffer(std::make_shared<std::vector<float>>(16, value)) {}

  void Assign(float value) {
    if (buffer.use_count() > 1) {
      buffer = std::make_shared<std::vector<float>>(16, value);
    } else {
      buffer->assign(16, value);
    }
  }
  std::shared_ptr<std::vector<float>> buffer;
};

struct Launcher {
  explicit Launcher(WeightCache* cache) : cache(cache), slots(1) {}

  std::shared_ptr<const PackedWeight> Launch(const Variable& variable,
                                             bool constant = false,
                                             bool can_hold = true) {
    // The launch's own reference to its input.
    const std::shared_ptr<std::vector<float>> input = variable.buffer;
    WeightCache::Request request;
    request.gemm = gemm;
    request.data = input->data();
    request.is_constant = constant;
    std::shared_ptr<const PackedWeight> packed = cache->Resolve(
        request,
        [&]() -> std::unique_ptr<BufferHold> {
          ++num_holds;
          if (!can_hold) return nullptr;
          return std::make_unique<TestHold>(input);
        },
        &slots[0]);
    // What every test relies on: never a stale weight.
    if (packed != nullptr) {
      EXPECT_EQ(static_cast<const float*>(packed->data())[15], (*input)[15]);
    }
    return packed;
  }

  WeightCache* const cache;
  std::shared_ptr<CopyGemm> gemm = std::make_shared<CopyGemm>(16);
  WeightSlots slots;
  int num_holds = 0;
};

TEST(VariableIsPackedAtItsThirdLaunch) {
  WeightCache cache;
  Launcher launcher(&cache);
  const Variable variable(1.0f);
  EXPECT(launcher.Launch(variable) == nullptr);
  EXPECT(launcher.Launch(variable) == nullptr);
  EXPECT_EQ(launcher.num_holds, 0);
  const auto packed = launcher.Launch(variable);
  ASSERT(packed != nullptr);
  EXPECT(launcher.Launch(variable) == packed);
  EXPECT_EQ(launcher.gemm->packs.load(), 1);
  const WeightCacheCounters counters = cache.counters();
  EXPECT_EQ(counters.hits, 1);
  EXPECT_EQ(counters.misses, 3);
  EXPECT_EQ(counters.packs, 1);
  EXPECT_EQ(counters.entries, 1);
  EXPECT_EQ(counters.bytes, 64);
}

TEST(ConstantIsPackedAtOnce) {
  WeightCache cache;
  Launcher launcher(&cache);
  const Variable constant(1.0f);
  EXPECT(launcher.Launch(constant, /*constant=*/true) != nullptr);
  EXPECT_EQ(launcher.gemm->packs.load(), 1);
}

TEST(SecondUserFindsItPackedAtItsFirstLaunch) {
  WeightCache cache;
  Launcher first(&cache);
  Launcher second(&cache);
  second.gemm = first.gemm;
  const Variable variable(1.0f);
  for (int i = 0; i < 3; ++i) first.Launch(variable);
  EXPECT(second.Launch(variable) != nullptr);
  EXPECT_EQ(second.num_holds, 0);
  // Another GEMM reads the same buffer in another way.
  Launcher third(&cache);
  EXPECT(third.Launch(variable) == nullptr);
}

TEST(WrittenVariableIsNeverStaleAndLetGo) {
  WeightCache cache;
  Launcher launcher(&cache);
  Variable variable(1.0f);
  for (int i = 0; i < 4; ++i) launcher.Launch(variable);
  EXPECT(variable.buffer.use_count() == 2);
  variable.Assign(2.0f);  // a new buffer, as the cache holds the old one
  EXPECT(launcher.Launch(variable) == nullptr);
  EXPECT_EQ(cache.counters().released, 1);
  EXPECT_EQ(cache.counters().entries, 0);
  EXPECT_EQ(cache.counters().bytes, 0);
  // Not held now: written in place, with the same pointer, any number of times.
  const float* const pointer = variable.buffer->data();
  for (int i = 0; i < 3; ++i) {
    variable.Assign(3.0f + static_cast<float>(i));
    EXPECT(variable.buffer->data() == pointer);
    launcher.Launch(variable);
  }
}

TEST(TrainedVariableIsHeldMoreAndMoreSeldom) {
  WeightCache cache;
  Launcher launcher(&cache);
  Variable variable(0.0f);
  int packs_early = 0;
  for (int step = 0; step < 2000; ++step) {
    launcher.Launch(variable);
    variable.Assign(static_cast<float>(step));
    if (step == 199) packs_early = launcher.gemm->packs;
  }
  EXPECT(packs_early <= 8);
  EXPECT(launcher.gemm->packs - packs_early <= 1800 / 96 + 1);
  // Trained no more: it is packed again within the bound.
  bool packed = false;
  for (int i = 0; i < 97 && !packed; ++i) {
    packed = launcher.Launch(variable) != nullptr;
  }
  EXPECT(packed);
}

TEST(AlternatingPointersAreNotPackedForOneAnother) {
  WeightCache cache;
  Launcher launcher(&cache);
  const Variable a(1.0f);
  const Variable b(2.0f);
  for (int i = 0; i < 10; ++i) {
    EXPECT(launcher.Launch(a) == nullptr);
    EXPECT(launcher.Launch(b) == nullptr);
  }
  // Held for another user, both are found.
  Launcher other_a(&cache);
  Launcher other_b(&cache);
  other_a.gemm = other_b.gemm = launcher.gemm;
  for (int i = 0; i < 3; ++i) {
    other_a.Launch(a);
    other_b.Launch(b);
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT(launcher.Launch(a) != nullptr);
    EXPECT(launcher.Launch(b) != nullptr);
  }
  EXPECT_EQ(cache.counters().entries, 2);
}

TEST(WhatCannotBeHeldIsNotCached) {
  WeightCache cache;
  Launcher launcher(&cache);
  const Variable variable(1.0f);
  for (int i = 0; i < 20; ++i) {
    EXPECT(launcher.Launch(variable, false, /*can_hold=*/false) == nullptr);
  }
  EXPECT_EQ(cache.counters().entries, 0);
  EXPECT_EQ(cache.counters().packs, 0);
  EXPECT_EQ(cache.counters().failures, launcher.num_holds);
  EXPECT(launcher.num_holds <= 3);  // and seldom tried
  EXPECT_EQ(variable.buffer.use_count(), 1);
}

TEST(FailedPackingIsCountedAndLeavesNothing) {
  WeightCache cache;
  Launcher launcher(&cache);
  launcher.gemm->fails = true;
  const Variable variable(1.0f);
  EXPECT(launcher.Launch(variable, /*constant=*/true) == nullptr);
  EXPECT_EQ(cache.counters().failures, 1);
  EXPECT_EQ(cache.counters().last_failure, "packing failed");
  EXPECT_EQ(cache.counters().entries, 0);
  EXPECT_EQ(variable.buffer.use_count(), 1);
}

TEST(BudgetEvictsTheLeastRecentlyUsed) {
  WeightCache cache(/*budget_bytes=*/2 * 64);
  Launcher a(&cache), b(&cache), c(&cache);
  b.gemm = c.gemm = a.gemm;
  const Variable va(1.0f), vb(2.0f), vc(3.0f);
  ASSERT(a.Launch(va, true) != nullptr);
  ASSERT(b.Launch(vb, true) != nullptr);
  ASSERT(a.Launch(va, true) != nullptr);  // now b is the older
  ASSERT(c.Launch(vc, true) != nullptr);
  EXPECT_EQ(cache.counters().evictions, 1);
  EXPECT_EQ(cache.counters().bytes, 2 * 64);
  EXPECT_EQ(vb.buffer.use_count(), 1);
  EXPECT_EQ(va.buffer.use_count(), 2);
  // Three weights that take turns in room for two: packing dies down.
  for (int i = 0; i < 300; ++i) {
    a.Launch(va, true);
    b.Launch(vb, true);
    c.Launch(vc, true);
  }
  EXPECT(a.gemm->packs < 100);
  cache.SetBudget(0);
  EXPECT_EQ(cache.counters().entries, 0);
  EXPECT(a.Launch(va, true) == nullptr);
  EXPECT_EQ(va.buffer.use_count(), 1);
}

TEST(SweepAndClear) {
  WeightCache cache;
  Launcher a(&cache), b(&cache);
  b.gemm = a.gemm;
  auto va = std::make_unique<Variable>(1.0f);
  const Variable vb(2.0f);
  ASSERT(a.Launch(*va, true) != nullptr);
  const auto in_use = b.Launch(vb, true);
  cache.Sweep();
  EXPECT_EQ(cache.counters().entries, 2);
  va.reset();  // the model is gone
  cache.Sweep();
  EXPECT_EQ(cache.counters().entries, 1);
  EXPECT_EQ(cache.counters().released, 1);
  cache.Clear();
  EXPECT_EQ(cache.counters().entries, 0);
  EXPECT_EQ(cache.counters().bytes, 0);
  // A run under way keeps its weight.
  EXPECT_EQ(static_cast<const float*>(in_use->data())[0], 2.0f);
  EXPECT_EQ(vb.buffer.use_count(), 2);
}

TEST(NobodyWaitsForAPack) {
  WeightCache cache;
  Launcher packer(&cache), other(&cache);
  other.gemm = packer.gemm;
  const Variable variable(1.0f);
  const Variable unrelated(2.0f);
  packer.gemm->blocked = true;
  std::thread packing(
      [&] { EXPECT(packer.Launch(variable, true) != nullptr); });
  while (cache.counters().entries == 0) std::this_thread::yield();
  // The same weight is multiplied as it is; Clear does not wait either.
  EXPECT(other.Launch(variable, true) == nullptr);
  cache.Clear();
  EXPECT_EQ(cache.counters().entries, 0);
  packer.gemm->blocked = false;
  packing.join();
  EXPECT_EQ(cache.counters().entries, 0);
  EXPECT_EQ(variable.buffer.use_count(), 1);
}

TEST(ManyThreadsAndAWriter) {
  WeightCache cache(/*budget_bytes=*/3 * 64);
  const auto gemm = std::make_shared<CopyGemm>(16);
  std::vector<std::unique_ptr<Launcher>> launchers;
  for (int i = 0; i < 3; ++i) {
    launchers.push_back(std::make_unique<Launcher>(&cache));
    launchers.back()->gemm = gemm;
  }
  std::mutex mutex;
  std::vector<Variable> variables;
  for (int i = 0; i < 5; ++i) variables.emplace_back(static_cast<float>(i));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        const size_t which = static_cast<size_t>(i / 9 + t) % variables.size();
        std::unique_lock<std::mutex> lock(mutex);
        if (i % 50 == 0) variables[which].Assign(static_cast<float>(i));
        const Variable read = variables[which];
        lock.unlock();
        // Threads share the launchers, as concurrent launches share a node.
        WeightCache::Request request;
        request.gemm = gemm;
        request.data = read.buffer->data();
        Launcher& launcher = *launchers[static_cast<size_t>(i) % 3];
        const auto packed = cache.Resolve(
            request, [&] { return std::make_unique<TestHold>(read.buffer); },
            &launcher.slots[0]);
        if (packed != nullptr) {
          EXPECT_EQ(static_cast<const float*>(packed->data())[0],
                    (*read.buffer)[0]);
        }
        if (i % 1000 == 999) cache.Clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(cache.counters().bytes <= 3 * 64);
  cache.Clear();
  for (const Variable& variable : variables) {
    EXPECT_EQ(variable.buffer.use_count(), 1);
  }
}

}  // namespace
}  // namespace tf_disc
