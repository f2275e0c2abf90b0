// The inner kernels of products in types that oneDNN lacks: f64 and integers.
#ifndef TF_DISC_CC_RUNTIME_GEMM_KERNELS_H_
#define TF_DISC_CC_RUNTIME_GEMM_KERNELS_H_

#include <array>
#include <cstdint>

namespace tf_disc {

// c[rows, columns] = a x b, or c += a x b with `add`, where columns are a whole
// number of vectors. `a` is packed, one column of `rows` elements after the
// other; b and c are row-major with leading dimensions. k >= 1.
template <typename T>
using TileKernel = void (*)(int64_t k, const T* a, const T* b, int64_t ldb,
                            T* c, int64_t ldc, bool add);

constexpr int kMaxTileVectors = 3;
constexpr int kMaxTileRows512 = 8;  // 24 sums, 3 columns, 1 row: 28 of 32
constexpr int kMaxTileRows256 = 4;  // 12 sums, 3 columns, 1 row: 16 of 16
constexpr int kMaxTileRows128 = 3;  // 9 sums, 3 columns, and the products

// The kernels of one instruction set. T is double, or an unsigned integer:
// those wrap around, and the bits are the signed product's.
template <typename T>
struct TileKernels {
  int64_t lanes;     // elements of a vector
  int64_t max_rows;  // rows with a kernel: 1 to max_rows
  // [rows - 1][vectors - 1]
  std::array<std::array<TileKernel<T>, kMaxTileVectors>, kMaxTileRows512>
      kernels;
};

template <typename T>
const TileKernels<T>& Sse42TileKernels();
template <typename T>
const TileKernels<T>& Avx2TileKernels();
template <typename T>
const TileKernels<T>& Avx512TileKernels();

// The widest that this CPU runs; null where it has none.
template <typename T>
const TileKernels<T>* HostTileKernels();

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_GEMM_KERNELS_H_
