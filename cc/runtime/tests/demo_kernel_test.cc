// Walks demo_kernel.c through the whole runtime: the ABI with no compiler.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/dnnl_library.h"
#include "cc/runtime/launch_frame.h"
#include "cc/runtime/tests/compiled_object.h"
#include "cc/runtime/tests/pool_host.h"
#include "cc/runtime/weight_cache.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::CompileDemoKernel;
using testing::CountThreads;
using testing::PoolHost;
using testing::ThreadPool;

constexpr char kManifest[] =
    "tf_disc manifest 1\n"
    "abi 3\n"
    "compiler by-hand\n"
    "llvm none\n"
    "target x86-64\n"
    "entry plan demo_plan\n"
    "entry run demo_run\n"
    "sizes 2\n"
    "input 0 f32 2\n"
    "input 1 f32 2\n"
    "input 2 f32 1\n"
    "output 0 f32 2\n"
    "output 1 f32 2\n"
    "gemm 0 weight=1 dtype=f32 packed=f32 k=24 n=40 transpose=0\n"
    "task 0 gemm_bias_relu\n"
    "task 1 copy_rows\n"
    "guard 0 x.dim(1) == 24\n"
    "guard 1 bias.dim(0) == 40\n";
constexpr int64_t kK = 24, kN = 40;

std::string Edited(const std::string& from, const std::string& to) {
  std::string text = kManifest;
  return text.replace(text.find(from), from.size(), to);
}

const std::string& DemoObject() {
  static const auto* const object = new std::string(CompileDemoKernel());
  return *object;
}

std::shared_ptr<const Executable> LoadDemo() {
  auto loaded = Executable::Load(kManifest, DemoObject());
  if (loaded.ok()) return *loaded;
  testing::Fail(__FILE__, __LINE__, std::string(loaded.status().message()));
  return nullptr;
}

// Inputs of one launch and what must come out.
struct Demo {
  explicit Demo(int64_t rows)
      : rows(rows),
        x(static_cast<size_t>(rows * kK)),
        w(std::make_shared<std::vector<float>>(kK * kN)),
        bias(kN),
        x_dims{rows, kK},
        w_dims{kK, kN},
        bias_dims{kN} {
    // Small integers: sums are exact in any order.
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < w->size(); ++i) {
      (*w)[i] = static_cast<float>(i % 5) - 2;
    }
    for (size_t i = 0; i < bias.size(); ++i) {
      bias[i] = static_cast<float>(i % 3) - 1;
    }
  }

  std::vector<LaunchInput> Inputs(bool cacheable) const {
    std::vector<LaunchInput> inputs(3);
    inputs[0].data = x.data();
    inputs[0].dims = x_dims;
    inputs[1].data = w->data();
    inputs[1].dims = w_dims;
    inputs[1].is_cacheable_weight = cacheable;
    inputs[2].data = bias.data();
    inputs[2].dims = bias_dims;
    return inputs;
  }

  void Check(const PoolHost& host) const {
    ASSERT(host.outputs.size() == 2);
    EXPECT(host.output_dims[0] == (std::vector<int64_t>{rows, kN}));
    EXPECT(host.output_dims[1] == (std::vector<int64_t>{rows / 2, rows / 2}));
    std::vector<float> y(static_cast<size_t>(rows * kN));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        float sum = bias[j];
        for (int64_t l = 0; l < kK; ++l) {
          sum += x[i * kK + l] * (*w)[l * kN + j];
        }
        y[i * kN + j] = sum < 0 ? 0 : sum;
      }
    }
    int wrong = 0;
    const auto* got = static_cast<const float*>(host.outputs[0].get());
    for (size_t i = 0; i < y.size(); ++i) wrong += got[i] != y[i];
    const auto* products = static_cast<const float*>(host.outputs[1].get());
    const int64_t half = rows / 2;
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t j = 0; j < half; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < kN; ++l) sum += y[i * kN + l] * y[j * kN + l];
        wrong += products[i * half + j] != sum;
      }
    }
    EXPECT_EQ(wrong, 0);
  }

  const int64_t rows;
  std::vector<float> x;
  std::shared_ptr<std::vector<float>> w;
  std::vector<float> bias;
  std::vector<int64_t> x_dims, w_dims, bias_dims;
};

LaunchResult Launch(const Executable& executable, const Demo& demo,
                    WeightSlots* slots, PoolHost* host) {
  host->holds = {nullptr, demo.w, nullptr};
  return RunExecutable(executable, demo.Inputs(slots != nullptr), slots, host);
}

TEST(OneExecutableRunsEverySize) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  EXPECT(executable->mapped_bytes() > 0);
  const auto slots = executable->NewWeightSlots();
  {
    ThreadPool pool(2);
    const int threads_before = CountThreads();
    for (int64_t rows : {0, 1, 2, 3, 63, 64, 65, 128, 500, 1000}) {
      const Demo demo(rows);
      // Unpacked, packing, packed.
      for (int launch = 0; launch < 5; ++launch) {
        PoolHost host(&pool);
        const LaunchResult result =
            Launch(*executable, demo, slots.get(), &host);
        EXPECT(result.outcome == LaunchOutcome::kDone);
        EXPECT_EQ(result.reason, "");
        demo.Check(host);
      }
    }
    EXPECT_EQ(CountThreads(), threads_before);
  }
  const bool can_pack = executable->gemms()[0]->can_pack();
  EXPECT_EQ(WeightCache::Global().counters().packs >= 1, can_pack);
  WeightCache::Global().Clear();
}

TEST(WithoutAPoolAndWithoutSlots) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  const Demo demo(100);
  PoolHost host(nullptr);
  EXPECT(Launch(*executable, demo, nullptr, &host).outcome ==
         LaunchOutcome::kDone);
  demo.Check(host);
  EXPECT_EQ(host.num_holds, 0);
}

TEST(ManyLaunchesOfOneNodeAtOnce) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  const auto slots = executable->NewWeightSlots();
  ThreadPool pool(2);
  const Demo shared_weight(333);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      const Demo own(100 + c);
      for (int i = 0; i < 50; ++i) {
        PoolHost host(&pool);
        const Demo& demo = i % 2 == 0 ? shared_weight : own;
        EXPECT(Launch(*executable, demo, slots.get(), &host).outcome ==
               LaunchOutcome::kDone);
        demo.Check(host);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  WeightCache::Global().Clear();
}

TEST(TasksAreTracedByName) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  const Demo demo(10);
  PoolHost host(nullptr);
  host.tracing = true;
  EXPECT(Launch(*executable, demo, nullptr, &host).outcome ==
         LaunchOutcome::kDone);
  EXPECT(host.traced ==
         (std::vector<std::string>{"gemm_bias_relu", "copy_rows"}));
}

TEST(FailedGuardAllocatesNothing) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  Demo demo(10);
  demo.bias_dims = {kN - 1};
  PoolHost host(nullptr);
  const LaunchResult result = Launch(*executable, demo, nullptr, &host);
  EXPECT(result.outcome == LaunchOutcome::kGuardFailed);
  EXPECT_EQ(result.failed_guard, 1);
  EXPECT_EQ(result.reason, "bias.dim(0) == 40");
  EXPECT(host.outputs.empty() && host.temporaries.empty());
}

TEST(WrongInputsAreAReason) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  const auto expect = [&](const std::vector<LaunchInput>& inputs,
                          WeightSlots* slots, const char* reason) {
    PoolHost host(nullptr);
    const LaunchResult result =
        RunExecutable(*executable, inputs, slots, &host);
    EXPECT(result.outcome == LaunchOutcome::kFailed);
    if (!absl::StrContains(result.reason, reason)) {
      testing::Fail(
          __FILE__, __LINE__,
          absl::StrCat("expected '", reason, "' in '", result.reason, "'"));
    }
    EXPECT(host.outputs.empty());
  };
  Demo demo(10);
  std::vector<LaunchInput> inputs = demo.Inputs(false);
  inputs[0].dtype = DISC_F64;
  expect(inputs, nullptr, "input 0 is f64[10,24], compiled for f32 of rank 2");
  inputs.pop_back();
  expect(inputs, nullptr, "compiled for 3 inputs, called with 2");
  demo.w_dims = {kK, kN + 1};
  expect(demo.Inputs(false), nullptr, "weight input 1 has dims [24,41]");
  WeightSlots other(5);
  expect(Demo(1).Inputs(false), &other, "belong to another executable");
}

TEST(NoMemoryIsAReason) {
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  const Demo demo(10);
  PoolHost host(nullptr);
  host.fail_temporaries = true;
  const LaunchResult result = Launch(*executable, demo, nullptr, &host);
  EXPECT(result.outcome == LaunchOutcome::kFailed);
  EXPECT_EQ(result.reason, "out of memory");
}

TEST(LoadRefusesWhatDoesNotFit) {
  const auto error = [](const std::string& manifest,
                        const std::string& object) {
    const auto loaded = Executable::Load(manifest, object);
    return loaded.ok() ? "" : std::string(loaded.status().message());
  };
  ASSERT(!DemoObject().empty());
  EXPECT_EQ(error(Edited("abi 3", "abi 4"), DemoObject()),
            "compiled for kernel ABI 4, this runtime has 3");
  EXPECT(absl::StrContains(
      error(Edited("x86-64\n", "x86-64 +future\n"), DemoObject()),
      "compiled for +future, which this CPU lacks"));
  EXPECT(absl::StrContains(error(Edited("x86-64\n", "riscv64\n"), DemoObject()),
                           "target 'riscv64'"));
  EXPECT_EQ(error(Edited("demo_run", "demo_stop"), DemoObject()),
            "kernel object: no function 'demo_stop'");
  EXPECT(absl::StrContains(error("", DemoObject()), "manifest line 1"));
  EXPECT(absl::StrContains(error(kManifest, "rubbish"), "kernel object"));
  EXPECT(absl::StrContains(
      error(Edited("input 1 f32", "input 1 f64"), DemoObject()),
      "a gemm of f32 with input 1, which is f64"));
  // Below AVX2 products are oneDNN's.
  ASSERT(LimitHostCpu("x86-64-v2").ok());
  SetDnnlLibraryPath("/nonexistent/libtf_disc_dnnl.so.3");
  EXPECT(
      absl::StrContains(error(kManifest, DemoObject()), "cannot load oneDNN"));
  SetDnnlLibraryPath("");
  ASSERT(LimitHostCpu("").ok());
}

TEST(LibraryThatGoesMissingIsAReason) {
  // Loaded where panels serve, run where products are oneDNN's.
  const auto executable = LoadDemo();
  ASSERT(executable != nullptr);
  const Demo demo(10);
  PoolHost host(nullptr);
  ASSERT(LimitHostCpu("x86-64-v2").ok());
  SetDnnlLibraryPath("/nonexistent/libtf_disc_dnnl.so.3");
  const LaunchResult result = Launch(*executable, demo, nullptr, &host);
  SetDnnlLibraryPath("");
  ASSERT(LimitHostCpu("").ok());
  EXPECT(result.outcome == LaunchOutcome::kFailed);
  EXPECT(absl::StrContains(result.reason, "cannot load oneDNN"));
}

TEST(LeadingDimensionsOfAPackedWeight) {
  const auto loaded = Executable::Load(
      "tf_disc manifest 1\nabi 3\ncompiler by-hand\nllvm none\n"
      "target x86-64\nentry plan strided_plan\nentry run strided_run\n"
      "sizes 0\ninput 0 f32 2\ninput 1 f32 2\noutput 0 f32 2\n"
      "gemm 0 weight=1 dtype=f32 packed=f32 k=24 n=40 transpose=0\n",
      testing::CompileC("cc/runtime/tests/strided_kernel.c"));
  ASSERT(loaded.ok());
  const auto slots = (*loaded)->NewWeightSlots();
  const Demo demo(0);  // for its weight
  constexpr int64_t kColumns = kK + 5;
  for (int64_t rows : {1, 2, 70}) {
    std::vector<float> x(static_cast<size_t>(rows * kColumns));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    const std::vector<int64_t> dims = {rows, kColumns};
    std::vector<LaunchInput> inputs = demo.Inputs(true);
    inputs.pop_back();
    inputs[0].data = x.data();
    inputs[0].dims = dims;
    for (int launch = 0; launch < 4; ++launch) {
      PoolHost host(nullptr);
      host.holds = {nullptr, demo.w};
      ASSERT(RunExecutable(**loaded, inputs, slots.get(), &host).outcome ==
             LaunchOutcome::kDone);
      const auto* y = static_cast<const float*>(host.outputs[0].get());
      int wrong = 0;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          float sum = 0;
          for (int64_t l = 0; l < kK; ++l) {
            sum += x[i * kColumns + l] * (*demo.w)[l * kN + j];
          }
          wrong += y[i * (kN + 2) + j] != sum;
        }
      }
      EXPECT_EQ(wrong, 0);
    }
  }
  WeightCache::Global().Clear();
}

TEST(KernelCompiledInOtherWaysLoadsToo) {
  for (const char* flags : {"-fPIE", "-fPIC -O0", "-fPIC -mcmodel=small -O3"}) {
    const auto loaded = Executable::Load(kManifest, CompileDemoKernel(flags));
    ASSERT(loaded.ok());
    const Demo demo(70);
    PoolHost host(nullptr);
    EXPECT(Launch(**loaded, demo, nullptr, &host).outcome ==
           LaunchOutcome::kDone);
    demo.Check(host);
  }
}

}  // namespace
}  // namespace tf_disc
