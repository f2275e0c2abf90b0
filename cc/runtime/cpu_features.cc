#include "cc/runtime/cpu_features.h"

#include <cpuid.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf_disc {
namespace {

bool Bit(uint32_t word, int bit) { return ((word >> bit) & 1u) != 0; }

// XCR0: which register files the OS saves. Only valid with OSXSAVE.
uint64_t SavedState() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

CpuFeatures Detect() {
  CpuFeatures cpu;
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return cpu;
  cpu.sse42 = Bit(ecx, 0) && Bit(ecx, 9) && Bit(ecx, 13) && Bit(ecx, 19) &&
              Bit(ecx, 20) && Bit(ecx, 23);
  if (cpu.sse42) cpu.target = "x86-64-v2";
  const bool fma = Bit(ecx, 12), movbe = Bit(ecx, 22), osxsave = Bit(ecx, 27);
  const bool avx = Bit(ecx, 28), f16c = Bit(ecx, 29);
  if (!osxsave) return cpu;
  const uint64_t saved = SavedState();
  constexpr uint64_t kAvxState = 0x6, kAvx512State = 0xe6, kAmxState = 0x60000;
  const bool saves_avx = (saved & kAvxState) == kAvxState;
  const bool saves_avx512 = (saved & kAvx512State) == kAvx512State;
  const bool saves_amx = (saved & kAmxState) == kAmxState;

  bool lzcnt = false;
  if (__get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx)) lzcnt = Bit(ecx, 5);
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return cpu;
  const uint32_t max_subleaf = eax;
  const bool bmi1 = Bit(ebx, 3), avx2 = Bit(ebx, 5), bmi2 = Bit(ebx, 8);
  const bool avx512f = Bit(ebx, 16), avx512dq = Bit(ebx, 17);
  const bool avx512cd = Bit(ebx, 28), avx512bw = Bit(ebx, 30);
  const bool avx512vl = Bit(ebx, 31);
  const bool amx_bf16 = Bit(edx, 22), amx_tile = Bit(edx, 24);
  bool avx512bf16 = false;
  if (max_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
    avx512bf16 = Bit(eax, 5);
  }

  cpu.avx2 = cpu.sse42 && saves_avx && avx && avx2 && fma && f16c && movbe &&
             lzcnt && bmi1 && bmi2;
  cpu.avx512 = cpu.avx2 && saves_avx512 && avx512f && avx512bw && avx512cd &&
               avx512dq && avx512vl;
  cpu.avx512bf16 = cpu.avx512 && avx512bf16;
  cpu.amx_tile = cpu.avx512 && saves_amx && amx_tile;
  cpu.amx_bf16 = cpu.amx_tile && amx_bf16;

  if (cpu.avx512) {
    cpu.target = "x86-64-v4";
  } else if (cpu.avx2) {
    cpu.target = "x86-64-v3";
  }
  const auto add = [&cpu](bool present, absl::string_view name) {
    if (!present) return;
    absl::StrAppend(&cpu.features, cpu.features.empty() ? "" : ",", name);
  };
  add(cpu.avx512bf16, "+avx512bf16");
  add(cpu.amx_tile, "+amx-tile");
  add(cpu.amx_bf16, "+amx-bf16");
  return cpu;
}

const CpuFeatures& RealCpu() {
  static const CpuFeatures* const cpu = new CpuFeatures(Detect());
  return *cpu;
}

std::atomic<const CpuFeatures*> limited_cpu{nullptr};

}  // namespace

const CpuFeatures& HostCpu() {
  const CpuFeatures* const limited = limited_cpu.load();
  return limited == nullptr ? RealCpu() : *limited;
}

absl::StatusOr<CpuFeatures> LimitedCpu(const CpuFeatures& cpu,
                                       absl::string_view level) {
  if (level.empty() || level == "x86-64-v4") return cpu;
  if (level != "x86-64-v2" && level != "x86-64-v3") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", level,
                     "' is no CPU level; known are x86-64-v2, x86-64-v3 and "
                     "x86-64-v4"));
  }
  CpuFeatures limited;
  limited.sse42 = cpu.sse42;
  limited.avx2 = cpu.avx2 && level == "x86-64-v3";
  limited.target = cpu.avx2 ? std::string(level) : cpu.target;
  return limited;
}

absl::Status LimitHostCpu(absl::string_view level) {
  absl::StatusOr<CpuFeatures> limited = LimitedCpu(RealCpu(), level);
  if (!limited.ok()) return limited.status();
  // One for each level, never freed: who has asked may still hold it.
  static std::array<std::atomic<const CpuFeatures*>, 3> known{};
  std::atomic<const CpuFeatures*>& place = known[limited->avx512 ? 2
                                                 : limited->avx2 ? 1
                                                                 : 0];
  const CpuFeatures* found = place.load();
  if (found == nullptr) {
    const CpuFeatures* const made = new CpuFeatures(*std::move(limited));
    if (place.compare_exchange_strong(found, made)) {
      found = made;
    } else {
      delete made;
    }
  }
  limited_cpu.store(level.empty() ? nullptr : found);
  return absl::OkStatus();
}

absl::Status CheckRunsOn(const CpuFeatures& cpu, absl::string_view target,
                         absl::string_view features) {
  const auto missing = [](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("compiled for ", what, ", which this CPU lacks"));
  };
  if (target == "x86-64-v4") {
    if (!cpu.avx512) return missing(target);
  } else if (target == "x86-64-v3") {
    if (!cpu.avx2) return missing(target);
  } else if (target == "x86-64-v2") {
    if (!cpu.sse42) return missing(target);
  } else if (target != "x86-64") {
    return absl::FailedPreconditionError(
        absl::StrCat("compiled for target '", target,
                     "'; known are x86-64, x86-64-v2, x86-64-v3 and "
                     "x86-64-v4"));
  }
  for (absl::string_view feature :
       absl::StrSplit(features, ',', absl::SkipEmpty())) {
    const bool present = (feature == "+avx512bf16" && cpu.avx512bf16) ||
                         (feature == "+amx-tile" && cpu.amx_tile) ||
                         (feature == "+amx-bf16" && cpu.amx_bf16);
    if (!present) return missing(feature);
  }
  return absl::OkStatus();
}

}  // namespace tf_disc
