// The manifest of an artifact (docs/contracts.md 5): text, one fact a line.
#ifndef TF_DISC_CC_RUNTIME_MANIFEST_H_
#define TF_DISC_CC_RUNTIME_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/abi/kernel_abi.h"

namespace tf_disc {

struct ManifestTensor {
  disc_dtype dtype = DISC_F32;
  int rank = 0;
};

// One use of disc_imports_t::gemm_packed: x[rows, k] times input `weight`,
// which is [k, n] row-major, or [n, k] with `transpose`.
struct ManifestGemm {
  int weight = 0;
  disc_dtype dtype = DISC_F32;   // of the weight
  disc_dtype packed = DISC_F32;  // of the left operand and the packed weight
  int64_t k = 0;
  int64_t n = 0;
  bool transpose = false;
};

struct Manifest {
  int abi_version = 0;
  std::string compiler_version;
  std::string llvm_version;
  std::string target;    // "x86-64-v4"
  std::string features;  // "+avx512bf16,+amx-tile"; may be empty
  std::string plan_symbol;
  std::string run_symbol;
  int64_t num_sizes = 0;
  std::vector<ManifestTensor> inputs;
  std::vector<ManifestTensor> outputs;
  std::vector<ManifestGemm> gemms;
  std::vector<std::string> tasks;   // names, for traces
  std::vector<std::string> guards;  // texts, for people
};

// Parses `text`. Everything is checked: first line, unknown keys, missing and
// repeated facts, indices that do not count up from 0, ranges, references
// between lines. InvalidArgument names the line by number and content.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

// "f32", "bf16" ...; "?" for a value outside the enum.
const char* AbiDtypeName(disc_dtype dtype);
// Bytes of one element; 0 for a value outside the enum.
int64_t AbiDtypeSize(disc_dtype dtype);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_MANIFEST_H_
