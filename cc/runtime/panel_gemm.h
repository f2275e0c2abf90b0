// Products of f32, and of bf16 summed in f32, by panels of 64 columns: packed
// once for weights, on the way for other operands. One thread a call; any
// strides; any part of the columns.
#ifndef TF_DISC_CC_RUNTIME_PANEL_GEMM_H_
#define TF_DISC_CC_RUNTIME_PANEL_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cc/runtime/panel_kernels.h"

namespace tf_disc {

// A matrix: element [i, j] is data[i * row_stride + j * column_stride].
template <typename T>
struct MatrixView {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;

  MatrixView Transposed() const { return {data, column_stride, row_stride}; }
};

// Bytes of a packed [k, n]; T is float or uint16_t with the bits of bf16.
template <typename T>
int64_t PanelBytes(int64_t k, int64_t n);

// Packs b [k, n] into PanelBytes<T>(k, n) at the 64-byte aligned `packed`:
// panel after panel of kPanelColumns columns (those beyond n are never read),
// each row-major; of bf16, rows of pairs. Another type than T is rounded to
// nearest even, NaN stays NaN.
template <typename T, typename From>
void PackPanels(const PanelKernels<T>& kernels, const MatrixView<From>& b,
                int64_t k, int64_t n, T* packed);

// c[rows, begin to end) = a[rows, k] x the packed [k, n]; a's rows are dense
// with `lda` elements between them, c points at column `begin`, a multiple of
// kPanelColumns.
template <typename T>
void MultiplyPanels(const PanelKernels<T>& kernels, int64_t rows, int64_t begin,
                    int64_t end, int64_t k, const T* a, int64_t lda,
                    const T* packed, float* c, int64_t ldc);

// c[m, n] = a[m, k] x b[k, n], b being packed as it is read. Works in
// PanelScratchBytes() at `scratch`, 64-byte aligned. From is T, or float where
// T is bf16: then b is rounded.
template <typename T, typename From>
void MultiplyMatrices(const PanelKernels<T>& kernels, int64_t m, int64_t n,
                      int64_t k, const MatrixView<T>& a,
                      const MatrixView<From>& b, float* c, int64_t ldc,
                      void* scratch);
int64_t PanelScratchBytes();

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_PANEL_GEMM_H_
