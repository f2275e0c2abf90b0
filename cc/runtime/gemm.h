// Matrix products: packed weights by row tiles, and plain ones.
#ifndef TF_DISC_CC_RUNTIME_GEMM_H_
#define TF_DISC_CC_RUNTIME_GEMM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/abi/kernel_abi.h"

namespace tf_disc {

// x[rows, k] times one weight of n columns, for every number of rows, with the
// weight packed. Shared by the whole process, one for each (n, k, dtype), never
// destroyed. Thread-safe.
class PackedGemm {
 public:
  // Of x and the packed weight in `dtype`, f32 or bf16; results are f32. By
  // panels of our own (panel_gemm.h), but for bf16 where the CPU has AMX, and
  // f32 where it has no AVX2: there by oneDNN. Unimplemented, with the reason,
  // for other dtypes and for bf16 without hardware; Unavailable where oneDNN
  // is asked for and cannot be loaded; Internal where it refuses.
  static absl::StatusOr<std::shared_ptr<const PackedGemm>> Get(
      int64_t n, int64_t k, disc_dtype dtype);
  // By oneDNN on any CPU: primitives for tiles of 1 to 64 rows (gemm_tiles.h)
  // that all read one packed layout; made at the first call (0.2 to 0.6 ms
  // each), so that no size pays twice.
  static absl::StatusOr<std::shared_ptr<const PackedGemm>> GetDnnl(
      int64_t n, int64_t k, disc_dtype dtype);

  virtual ~PackedGemm() = default;

  // False where packing does not pay or cannot be had (no elements, few
  // columns): Pack and Run must not be called, UnpackedGemm serves.
  virtual bool can_pack() const = 0;
  virtual int64_t packed_bytes() const = 0;
  // Scratch that one Run needs, 64-byte aligned.
  virtual int64_t scratch_bytes() const = 0;

  // Packs weight [k, n], or [n, k] if `transpose`, of f32 or of the packed
  // dtype, into packed_bytes() bytes at the 64-byte aligned `packed`. Rounds to
  // nearest even.
  virtual absl::Status Pack(const void* weight, disc_dtype stored,
                            bool transpose, void* packed) const = 0;

  // c[rows, begin to end) = a[rows, k] x packed. `begin` is a multiple of 64; c
  // points at its column. One thread; `scratch` belongs to this call.
  virtual absl::Status Run(int64_t rows, int64_t begin, int64_t end,
                           const void* a, int64_t lda, const void* packed,
                           float* c, int64_t ldc, void* scratch) const = 0;
};

// A weight as it lies in its tensor: [k, n], or [n, k] with `transpose`.
struct StoredWeight {
  const void* data = nullptr;
  disc_dtype dtype = DISC_F32;
  bool transpose = false;
  int64_t k = 0;
  int64_t n = 0;
};

// What PackedGemm::Run gives, from the weight itself; `dtype` is that of `a`,
// to which the weight is rounded.
absl::Status UnpackedGemm(disc_dtype dtype, int64_t rows, int64_t begin,
                          int64_t end, const void* a, int64_t lda,
                          const StoredWeight& weight, float* c, int64_t ldc);

// c[m, n] = op(a) x op(b), row-major, one thread, as disc_imports_t::gemm_dense
// says: of f32, or of bf16 (c is f32). Works in memory that the calling thread
// keeps. Unimplemented for another dtype, and for bf16 without hardware.
absl::Status DenseGemm(disc_dtype dtype, bool transpose_a, bool transpose_b,
                       int64_t m, int64_t n, int64_t k, const void* a,
                       int64_t lda, const void* b, int64_t ldb, float* c,
                       int64_t ldc);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_GEMM_H_
