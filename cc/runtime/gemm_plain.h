// Matrix products in types that oneDNN lacks.
#ifndef TF_DISC_CC_RUNTIME_GEMM_PLAIN_H_
#define TF_DISC_CC_RUNTIME_GEMM_PLAIN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cc/abi/kernel_abi.h"
#include "cc/runtime/gemm_kernels.h"

namespace tf_disc {

// c[m, n] = op(a) x op(b) of f64, i32 or i64, one thread, as
// disc_imports_t::gemm_dense says. Integers wrap around. Works in 352 KB
// that the calling thread keeps from its first product to its end.
// Unimplemented for another dtype and on a CPU without AVX2, ResourceExhausted
// without memory.
absl::Status PlainGemm(disc_dtype dtype, bool transpose_a, bool transpose_b,
                       int64_t m, int64_t n, int64_t k, const void* a,
                       int64_t lda, const void* b, int64_t ldb, void* c,
                       int64_t ldc);

// Bytes that PlainGemmWith wants, whatever the sizes and the kernels.
int64_t PlainGemmScratchBytes();

// The same with given kernels and scratch (64-byte aligned). T is double,
// uint32_t or uint64_t.
template <typename T>
void PlainGemmWith(const TileKernels<T>& kernels, bool transpose_a,
                   bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                   int64_t ldc, void* scratch);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_GEMM_PLAIN_H_
