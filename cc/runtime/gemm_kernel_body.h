// The code of gemm_kernels.h for one instruction set. Included by the file of
// each, which says which:
//   TF_DISC_TILE_TARGET  the function attribute
//   TF_DISC_TILE_BYTES   of a vector
//   TF_DISC_TILE_ROWS    the most rows of a tile
//   TF_DISC_TILE_TABLE   the function that is defined
// Only the tile functions are compiled for the instruction set. A file compiled
// for it as a whole would also make copies of inline functions of the standard
// library that the linker may choose for everybody.
#ifndef TF_DISC_CC_RUNTIME_GEMM_KERNEL_BODY_H_
#define TF_DISC_CC_RUNTIME_GEMM_KERNEL_BODY_H_

#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/runtime/gemm_kernels.h"

#if !defined(TF_DISC_TILE_TARGET) || !defined(TF_DISC_TILE_BYTES) || \
    !defined(TF_DISC_TILE_ROWS) || !defined(TF_DISC_TILE_TABLE)
#error "gemm_kernel_body.h is included by the file of an instruction set"
#endif

namespace tf_disc {
namespace {

// Sums stay in registers: the loops over rows and vectors are unrolled. The
// product's additions may contract (FMA), as matrix products of TensorFlow do.
template <typename T, int kRows, int kVectors>
TF_DISC_TILE_TARGET void Tile(int64_t k, const T* a, const T* b, int64_t ldb,
                              T* c, int64_t ldc, bool add) {
  typedef T Vector __attribute__((vector_size(TF_DISC_TILE_BYTES)));
  constexpr int kLanes = TF_DISC_TILE_BYTES / sizeof(T);
  Vector sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Vector{};
  }
  for (int64_t l = 0; l < k; ++l) {
    Vector columns[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      std::memcpy(&columns[j], b + j * kLanes, sizeof(Vector));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) sums[i][j] += a[i] * columns[j];
    }
    a += kRows;
    b += ldb;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      Vector sum = sums[i][j];
      if (add) {
        Vector before;
        std::memcpy(&before, c + i * ldc + j * kLanes, sizeof(Vector));
        sum += before;
      }
      std::memcpy(c + i * ldc + j * kLanes, &sum, sizeof(Vector));
    }
  }
}

template <typename T, int... kRowsLessOne>
TileKernels<T> MakeTable(std::integer_sequence<int, kRowsLessOne...>) {
  static_assert(kMaxTileVectors == 3, "a column of the table for each count");
  TileKernels<T> table = {};
  table.lanes = TF_DISC_TILE_BYTES / sizeof(T);
  table.max_rows = TF_DISC_TILE_ROWS;
  ((table.kernels[kRowsLessOne] = {&Tile<T, kRowsLessOne + 1, 1>,
                                   &Tile<T, kRowsLessOne + 1, 2>,
                                   &Tile<T, kRowsLessOne + 1, 3>}),
   ...);
  return table;
}

}  // namespace

template <typename T>
const TileKernels<T>& TF_DISC_TILE_TABLE() {
  static const TileKernels<T> table =
      MakeTable<T>(std::make_integer_sequence<int, TF_DISC_TILE_ROWS>());
  return table;
}

template const TileKernels<double>& TF_DISC_TILE_TABLE();
template const TileKernels<uint32_t>& TF_DISC_TILE_TABLE();
template const TileKernels<uint64_t>& TF_DISC_TILE_TABLE();

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_GEMM_KERNEL_BODY_H_
