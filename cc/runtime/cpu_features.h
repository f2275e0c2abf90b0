// What this CPU (and its OS) can run, as the compiler's target names say it.
#ifndef TF_DISC_CC_RUNTIME_CPU_FEATURES_H_
#define TF_DISC_CC_RUNTIME_CPU_FEATURES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tf_disc {

struct CpuFeatures {
  bool sse42 = false;   // the whole of x86-64-v2: ssse3, sse4.2, popcnt …
  bool avx2 = false;    // the whole of x86-64-v3: avx2, fma, bmi, f16c …
  bool avx512 = false;  // the whole of x86-64-v4: f, bw, cd, dq, vl
  bool avx512bf16 = false;
  bool amx_tile = false;
  bool amx_bf16 = false;

  // "x86-64-v4", "x86-64-v3", "x86-64-v2", or "" where none: nothing is
  // compiled then.
  std::string target;
  // LLVM's spelling of what the target name does not imply:
  // "+avx512bf16,+amx-tile,+amx-bf16", or "". Part of the worker's request
  // and of the cache key.
  std::string features;
};

// Asked once, then remembered, less what LimitHostCpu took away. A feature that
// the OS does not save (XCR0) is absent.
const CpuFeatures& HostCpu();

// What is left of `cpu` at `level` ("x86-64-v2" …) and below; all of it for ""
// or a level that it does not reach. InvalidArgument for another word.
absl::StatusOr<CpuFeatures> LimitedCpu(const CpuFeatures& cpu,
                                       absl::string_view level);

// From now on HostCpu() is the real one at this level. What is compiled stays.
absl::Status LimitHostCpu(absl::string_view level);

// OK if code for `target` and `features` may run on `cpu`; else
// FailedPrecondition that names what is missing.
absl::Status CheckRunsOn(const CpuFeatures& cpu, absl::string_view target,
                         absl::string_view features);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_CPU_FEATURES_H_
