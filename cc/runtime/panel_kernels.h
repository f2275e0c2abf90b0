// The inner kernels of f32 and bf16 products, which read b in panels.
#ifndef TF_DISC_CC_RUNTIME_PANEL_KERNELS_H_
#define TF_DISC_CC_RUNTIME_PANEL_KERNELS_H_

#include <array>
#include <cstdint>

namespace tf_disc {

// Columns of a packed panel: four vectors of AVX-512. Other instruction sets
// take a panel in pieces.
constexpr int64_t kPanelColumns = 64;
constexpr int kPanelVectors = 4;
// 24 sums (12 rows of 2 vectors, 6 of 4), 4 vectors of b, 1 of a: 29 of 32
// registers. With 16 registers 12 sums, 2 of b, 1 of a.
constexpr int kPanelRows = 12;

// c[rows, columns] = a x b, or c += a x b with `add`; columns are those of some
// vectors, of which the last has `last` (1 to lanes). Element [i, l] of a is
// a[i * a_row + l * a_k]. b is row-major with stride b_k. Each sum adds up in
// the order of l, so that it depends neither on the other rows and columns nor,
// where c is carried over, on how k is cut. k >= 0.
//
// bf16: numbers are pairs (l = 2 p and 2 p + 1, beside each other): row p of b
// has pairs of columns, b_k counts elements, a_k is 1. The last pair of an odd
// k has a zero in b.
template <typename T>
using PanelKernel = void (*)(int64_t k, const T* a, int64_t a_row, int64_t a_k,
                             const T* b, int64_t b_k, float* c, int64_t ldc,
                             int64_t last, bool add);

// The same for a whole panel, on AVX-512; on the way it asks for what will be
// needed next: half of each row of a panel that begins at `ahead`.
template <typename T>
using PanelKernelAhead = void (*)(int64_t k, const T* a, int64_t a_row,
                                  const T* b, float* c, int64_t ldc, bool add,
                                  const T* ahead);

// The kernels of one instruction set; T is float, or uint16_t with the bits of
// bf16.
template <typename T>
struct PanelKernels {
  int64_t lanes;    // columns of a vector
  int64_t vectors;  // at most, of a call
  // Rows at most, of a call of so many vectors, less one.
  std::array<int, kPanelVectors> rows;
  // [rows - 1][vectors - 1]
  std::array<std::array<PanelKernel<T>, kPanelVectors>, kPanelRows> kernels;
  // [rows - 1], for as many as kernels of a whole panel have; null where a
  // panel is no one call.
  std::array<PanelKernelAhead<T>, kPanelRows> ahead;
  // Turns `columns` (up to kPanelColumns) rows of `words` 32-bit words, with
  // `stride` words between rows, into `words` rows of kPanelColumns: the rest
  // of each with zeros.
  void (*turn)(const uint32_t* from, int64_t stride, int64_t columns,
               int64_t words, uint32_t* to);
  // bf16 alone: two rows of `columns` become one of pairs; f32 are rounded.
  void (*pair)(const uint16_t* first, const uint16_t* second, int64_t columns,
               uint32_t* to);
  void (*pair_rounded)(const float* first, const float* second, int64_t columns,
                       uint32_t* to);
};

const PanelKernels<float>& Avx2PanelKernels();
const PanelKernels<float>& Avx512PanelKernels();
const PanelKernels<uint16_t>& Avx512Bf16PanelKernels();

// What this CPU runs best; null where it has none.
template <typename T>
const PanelKernels<T>* HostPanelKernels();

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_PANEL_KERNELS_H_
