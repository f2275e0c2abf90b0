#include "cc/runtime/cpu_features.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "cc/testing/check.h"

namespace tf_disc {
namespace {

// The kernel's own list of what this CPU and it support.
std::set<std::string> CpuInfoFlags() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(AgreesWithTheKernel) {
  const std::set<std::string> flags = CpuInfoFlags();
  ASSERT(!flags.empty());
  const CpuFeatures& cpu = HostCpu();
  EXPECT_EQ(cpu.sse42,
            flags.count("sse4_2") == 1 && flags.count("popcnt") == 1);
  EXPECT_EQ(cpu.avx2, flags.count("avx2") == 1 && flags.count("fma") == 1);
  EXPECT_EQ(cpu.avx512, flags.count("avx512vl") == 1);
  EXPECT_EQ(cpu.avx512bf16, flags.count("avx512_bf16") == 1);
  EXPECT_EQ(cpu.amx_tile, flags.count("amx_tile") == 1);
  EXPECT_EQ(cpu.amx_bf16, flags.count("amx_bf16") == 1);
  EXPECT_EQ(cpu.target, cpu.avx512  ? "x86-64-v4"
                        : cpu.avx2  ? "x86-64-v3"
                        : cpu.sse42 ? "x86-64-v2"
                                    : "");
  EXPECT(CheckRunsOn(cpu, "x86-64", "").ok());
  if (!cpu.target.empty()) {
    EXPECT(CheckRunsOn(cpu, cpu.target, cpu.features).ok());
  }
}

TEST(LevelsAreTakenAway) {
  CpuFeatures cpu;
  cpu.sse42 = cpu.avx2 = cpu.avx512 = cpu.avx512bf16 = true;
  cpu.target = "x86-64-v4";
  cpu.features = "+avx512bf16";
  const CpuFeatures v3 = *LimitedCpu(cpu, "x86-64-v3");
  EXPECT_EQ(v3.target, "x86-64-v3");
  EXPECT_EQ(v3.features, "");
  EXPECT(v3.avx2 && !v3.avx512 && !v3.avx512bf16);
  const CpuFeatures v2 = *LimitedCpu(cpu, "x86-64-v2");
  EXPECT_EQ(v2.target, "x86-64-v2");
  EXPECT(v2.sse42 && !v2.avx2);
  // No level is added.
  EXPECT_EQ(LimitedCpu(v2, "x86-64-v3")->target, "x86-64-v2");
  EXPECT(!LimitedCpu(v2, "x86-64-v3")->avx2);
  EXPECT_EQ(LimitedCpu(CpuFeatures(), "x86-64-v3")->target, "");
  EXPECT_EQ(LimitedCpu(cpu, "")->features, "+avx512bf16");
  EXPECT(!LimitedCpu(cpu, "x86-64-v5").ok());
}

TEST(TheHostIsLimitedUntilToldOtherwise) {
  const std::string real = HostCpu().target;
  if (real.empty()) return;
  EXPECT(LimitHostCpu("x86-64-v2").ok());
  EXPECT_EQ(HostCpu().target, "x86-64-v2");
  EXPECT(!LimitHostCpu("sse").ok());
  EXPECT_EQ(HostCpu().target, "x86-64-v2");
  EXPECT(LimitHostCpu("").ok());
  EXPECT_EQ(HostCpu().target, real);
}

TEST(OlderCodeRunsNewerDoesNot) {
  CpuFeatures sse42;
  sse42.sse42 = true;
  EXPECT(CheckRunsOn(sse42, "x86-64-v2", "").ok());
  EXPECT(!CheckRunsOn(sse42, "x86-64-v3", "").ok());
  EXPECT(!CheckRunsOn(CpuFeatures(), "x86-64-v2", "").ok());
  CpuFeatures avx2;
  avx2.avx2 = true;
  CpuFeatures avx512 = avx2;
  avx512.avx512 = true;
  avx512.avx512bf16 = true;
  EXPECT(CheckRunsOn(avx512, "x86-64-v3", "").ok());
  EXPECT(CheckRunsOn(avx512, "x86-64-v4", "+avx512bf16").ok());
  EXPECT(!CheckRunsOn(avx512, "x86-64-v4", "+avx512bf16,+amx-tile").ok());
  EXPECT(CheckRunsOn(avx2, "x86-64-v3", "").ok());
  EXPECT(!CheckRunsOn(avx2, "x86-64-v4", "").ok());
  EXPECT(!CheckRunsOn(avx2, "x86-64-v3", "+avx512bf16").ok());
  EXPECT(!CheckRunsOn(CpuFeatures(), "x86-64-v3", "").ok());
  EXPECT(!CheckRunsOn(avx512, "", "").ok());
  EXPECT(!CheckRunsOn(avx512, "x86-64-v5", "").ok());
  EXPECT(!CheckRunsOn(avx512, "x86-64-v4", "-avx512bf16").ok());
}

}  // namespace
}  // namespace tf_disc
