// What the compiler writes, run by the runtime: the two sides of the ABI meet.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/launch_frame.h"
#include "cc/runtime/tests/compiled_object.h"
#include "cc/runtime/tests/pool_host.h"
#include "cc/runtime/weight_cache.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::OutputOf;
using testing::PoolHost;
using testing::ThreadPool;

constexpr int64_t kK = 64, kN = 48;

std::shared_ptr<const Executable> Compile(const std::string& target) {
  const std::string artifact = OutputOf(absl::StrCat(
      "${TF_DISC_TEST_PYTHON:-python3} cc/runtime/tests/compiled_cluster.py ",
      target));
  const size_t end = artifact.find('\0');
  if (end == artifact.npos) return nullptr;
  auto loaded =
      Executable::Load(artifact.substr(0, end), artifact.substr(end + 1));
  if (loaded.ok()) return *loaded;
  testing::Fail(__FILE__, __LINE__, std::string(loaded.status().message()));
  return nullptr;
}

// y = tanh(x w + b), s = softmax(y), in double.
void CheckRows(const PoolHost& host, const std::vector<float>& x,
               const std::vector<float>& w, const std::vector<float>& b,
               int64_t rows) {
  ASSERT(host.outputs.size() == 2);
  const std::vector<int64_t> dims = {rows, kN};
  EXPECT(host.output_dims[0] == dims && host.output_dims[1] == dims);
  const auto* y = static_cast<const float*>(host.outputs[0].get());
  const auto* s = static_cast<const float*>(host.outputs[1].get());
  double worst = 0;
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<double> row(kN);
    double total = 0;
    for (int64_t j = 0; j < kN; ++j) {
      double sum = b[j];
      for (int64_t l = 0; l < kK; ++l) {
        sum += static_cast<double>(x[i * kK + l]) * w[l * kN + j];
      }
      row[j] = std::tanh(sum);
      total += std::exp(row[j]);
    }
    for (int64_t j = 0; j < kN; ++j) {
      worst = std::max(worst, std::abs(row[j] - y[i * kN + j]));
      worst =
          std::max(worst, std::abs(std::exp(row[j]) / total - s[i * kN + j]));
    }
  }
  if (!(worst < 2e-6)) {
    testing::Fail(__FILE__, __LINE__,
                  absl::StrCat(rows, " rows: off by ", worst));
  }
}

TEST(OneCompileRunsEverySize) {
  const std::string& own = HostCpu().target;
  ASSERT(!own.empty());
  std::vector<std::string> targets = {"x86-64-v3"};
  if (own != targets[0]) targets.push_back(own);
  const auto w = std::make_shared<std::vector<float>>(kK * kN);
  std::vector<float> b(kN);
  for (size_t i = 0; i < w->size(); ++i) {
    (*w)[i] = 0.05f * static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  }
  for (size_t i = 0; i < b.size(); ++i) b[i] = 0.1f * static_cast<float>(i % 5);
  ThreadPool pool(2);
  for (const std::string& target : targets) {
    const auto executable = Compile(target);
    ASSERT(executable != nullptr);
    EXPECT_EQ(executable->manifest().target, target);
    EXPECT_EQ(executable->gemms().size(), size_t{1});
    const auto slots = executable->NewWeightSlots();
    for (int64_t rows : {0, 1, 2, 15, 16, 17, 63, 64, 65, 100, 1000}) {
      std::vector<float> x(static_cast<size_t>(rows * kK));
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = 0.1f * static_cast<float>(static_cast<int>(i * 5 % 17) - 8);
      }
      const std::vector<int64_t> x_dims = {rows, kK}, w_dims = {kK, kN},
                                 b_dims = {kN};
      std::vector<LaunchInput> inputs(3);
      inputs[0].data = x.data();
      inputs[0].dims = x_dims;
      inputs[1].data = w->data();
      inputs[1].dims = w_dims;
      inputs[1].is_cacheable_weight = true;
      inputs[2].data = b.data();
      inputs[2].dims = b_dims;
      PoolHost host(&pool);
      host.holds = {nullptr, w, nullptr};
      const LaunchResult result =
          RunExecutable(*executable, inputs, slots.get(), &host);
      EXPECT_EQ(result.reason, "");
      ASSERT(result.outcome == LaunchOutcome::kDone);
      CheckRows(host, x, *w, b, rows);
    }
  }
  // Without AVX-512 oneDNN has no packed layout.
  if ((*PackedGemm::Get(kN, kK, DISC_F32))->can_pack()) {
    EXPECT(WeightCache::Global().counters().hits >= 8);
  }
  WeightCache::Global().Clear();
}

TEST(WrongBiasFailsAGuard) {
  const auto executable = Compile("x86-64-v3");
  ASSERT(executable != nullptr);
  std::vector<float> x(kK), w(kK * kN), b(kN + 1);
  const std::vector<int64_t> x_dims = {1, kK}, w_dims = {kK, kN},
                             b_dims = {kN + 1};
  std::vector<LaunchInput> inputs(3);
  inputs[0].data = x.data();
  inputs[0].dims = x_dims;
  inputs[1].data = w.data();
  inputs[1].dims = w_dims;
  inputs[2].data = b.data();
  inputs[2].dims = b_dims;
  PoolHost host(nullptr);
  const LaunchResult result =
      RunExecutable(*executable, inputs, nullptr, &host);
  EXPECT(result.outcome == LaunchOutcome::kGuardFailed);
  EXPECT(!result.reason.empty());
  EXPECT(host.outputs.empty());
}

}  // namespace
}  // namespace tf_disc
