// Matrix products: packed weights by row tiles, and plain ones.
#ifndef TF_DISC_CC_RUNTIME_GEMM_H_
#define TF_DISC_CC_RUNTIME_GEMM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/abi/kernel_abi.h"

namespace tf_disc {

// x[rows, k] times one weight of n columns, for every number of rows: oneDNN
// primitives for tiles of 1 to 64 rows (gemm_tiles.h) that all read one packed
// layout. Shared by the whole process, one for each (n, k, dtype), never
// destroyed, so that no size pays twice. Thread-safe.
class PackedGemm {
 public:
  // The family for (n, k, dtype); its primitives are made at the first call
  // (0.2 to 0.6 ms each). Unavailable where oneDNN cannot be loaded,
  // Unimplemented for a dtype other than f32, Internal where oneDNN refuses.
  static absl::StatusOr<std::shared_ptr<const PackedGemm>> Get(
      int64_t n, int64_t k, disc_dtype dtype);

  virtual ~PackedGemm() = default;

  // False where packing does not pay or cannot be had (no elements, few
  // columns): Pack and Run must not be called, DenseGemm serves.
  virtual bool can_pack() const = 0;
  virtual int64_t packed_bytes() const = 0;
  // Scratch that one Run needs, 64-byte aligned.
  virtual int64_t scratch_bytes() const = 0;

  // Packs weight [k, n], or [n, k] if `transpose`, into packed_bytes() bytes at
  // the 64-byte aligned `packed`.
  virtual absl::Status Pack(const void* weight, bool transpose,
                            void* packed) const = 0;

  // c[rows, n] = a[rows, k] x packed, both dense: oneDNN 3.2 has only its
  // reference implementation for packed weights with other strides. One
  // thread; `scratch` belongs to this call.
  virtual absl::Status Run(int64_t rows, const void* a, const void* packed,
                           void* c, void* scratch) const = 0;
};

// c[m, n] = op(a) x op(b), row-major f32, one thread, as
// disc_imports_t::gemm_dense says.
absl::Status DenseGemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                       int64_t k, const float* a, int64_t lda, const float* b,
                       int64_t ldb, float* c, int64_t ldc);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_GEMM_H_
