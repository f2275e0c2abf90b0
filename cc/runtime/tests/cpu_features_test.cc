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
  EXPECT_EQ(cpu.avx2, flags.count("avx2") == 1 && flags.count("fma") == 1);
  EXPECT_EQ(cpu.avx512, flags.count("avx512vl") == 1);
  EXPECT_EQ(cpu.avx512bf16, flags.count("avx512_bf16") == 1);
  EXPECT_EQ(cpu.amx_tile, flags.count("amx_tile") == 1);
  EXPECT_EQ(cpu.amx_bf16, flags.count("amx_bf16") == 1);
  EXPECT_EQ(cpu.target, cpu.avx512 ? "x86-64-v4" : cpu.avx2 ? "x86-64-v3" : "");
  EXPECT(CheckRunsOn(cpu, "x86-64", "").ok());
  if (!cpu.target.empty()) {
    EXPECT(CheckRunsOn(cpu, cpu.target, cpu.features).ok());
  }
}

TEST(OlderCodeRunsNewerDoesNot) {
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
