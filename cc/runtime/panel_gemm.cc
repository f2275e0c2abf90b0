#include "cc/runtime/panel_gemm.h"

#include <algorithm>
#include <cstring>

#include "cc/runtime/cpu_features.h"

namespace tf_disc {
namespace {

// A block of b, one panel and so many bytes of each column, stays in L2 while
// all rows pass it, and so does a block of a that had to be copied.
constexpr int64_t kDepthBytes = 4096;
constexpr int64_t kBlockRows = 8 * kPanelRows;
// Of a packed weight a smaller one, because the next is asked for meanwhile.
constexpr int64_t kPackedDepthBytes = 1536;
// Rows up to which b is read in place: copying it would cost more.
constexpr int64_t kInPlaceRows = kPanelRows;

template <typename T>
constexpr int64_t kDepth = kDepthBytes / static_cast<int64_t>(sizeof(T));

// Numbers of k in one row of a panel.
template <typename T>
constexpr int64_t kPack = 4 / static_cast<int64_t>(sizeof(T));

template <typename T>
int64_t PanelRowsOf(int64_t k) {
  return (k + kPack<T> - 1) / kPack<T>;
}

template <typename T>
constexpr int64_t kPanelRow = kPanelColumns * kPack<T>;

void Convert(float from, float* to) { *to = from; }
void Convert(uint16_t from, uint16_t* to) { *to = from; }
void Convert(float from, uint16_t* to) {
  uint32_t bits;
  std::memcpy(&bits, &from, sizeof(bits));
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  // Denormals count as zero, as they do in the kernels.
  if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
  *to = nan ? 0x7fc0
            : static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// One panel: rows [0, depth) and `columns` columns of b.
template <typename T, typename From>
void PackPanel(const MatrixView<From>& b, int64_t depth, int64_t columns,
               T* to) {
  for (int64_t row = 0; row < depth; row += kPack<T>) {
    const int64_t pack = std::min(kPack<T>, depth - row);
    T* const line = to + row / kPack<T> * kPanelRow<T>;
    if (pack < kPack<T> || columns < kPanelColumns) {
      std::fill_n(line, kPanelRow<T>, T(0));
    }
    const From* const from = b.data + row * b.row_stride;
    for (int64_t p = 0; p < pack; ++p) {
      for (int64_t j = 0; j < columns; ++j) {
        Convert(from[p * b.row_stride + j * b.column_stride],
                &line[j * kPack<T> + p]);
      }
    }
  }
}

// The same, fast where one of b's strides is 1; columns beyond those of b may
// be left as they are, for kernels do not read them.
template <typename T, typename From>
void PackBlock(const PanelKernels<T>& kernels, const MatrixView<From>& b,
               int64_t depth, int64_t columns, T* to) {
  const int64_t whole = depth / kPack<T>;
  auto* const words = reinterpret_cast<uint32_t*>(to);
  int64_t done = 0;
  if constexpr (sizeof(T) == sizeof(From)) {
    // Words of a row that do not lie at a multiple of the word are read alike.
    if (b.row_stride == 1 && b.column_stride % kPack<T> == 0 && whole > 0) {
      kernels.turn(reinterpret_cast<const uint32_t*>(b.data),
                   b.column_stride / kPack<T>, columns, whole, words);
      done = whole;
    }
  }
  for (; b.column_stride == 1 && done < whole; ++done) {
    const From* const from = b.data + done * kPack<T> * b.row_stride;
    uint32_t* const line = words + done * kPanelColumns;
    if constexpr (kPack<T> == 1) {
      std::memcpy(line, from, columns * sizeof(T));
    } else if constexpr (sizeof(T) == sizeof(From)) {
      kernels.pair(from, from + b.row_stride, columns, line);
    } else {
      kernels.pair_rounded(from, from + b.row_stride, columns, line);
    }
  }
  const int64_t row = done * kPack<T>;
  PackPanel<T, From>(
      {b.data + row * b.row_stride, b.row_stride, b.column_stride}, depth - row,
      columns, to + done * kPanelRow<T>);
}

// c[rows, columns] = a x one panel (or a part of b in place), up to
// kPanelColumns columns; b_k between rows of b. `ahead`, if not null, is where
// as much of a panel begins as this call reads of b.
template <typename T>
void MultiplyPanel(const PanelKernels<T>& kernels, int64_t rows,
                   int64_t columns, int64_t depth, const T* a, int64_t a_row,
                   int64_t a_k, const T* b, int64_t b_k, float* c, int64_t ldc,
                   bool add, const T* ahead = nullptr) {
  const int64_t width = kernels.vectors * kernels.lanes;
  for (int64_t column = 0; column < columns; column += width) {
    const int64_t part = std::min(width, columns - column);
    const int64_t vectors = (part + kernels.lanes - 1) / kernels.lanes;
    const int64_t last = part - (vectors - 1) * kernels.lanes;
    // As few steps as there can be, and these as even as they can be.
    const int64_t most = kernels.rows[vectors - 1];
    const int64_t steps = (rows + most - 1) / most;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t first = rows * step / steps;
      const int64_t height = rows * (step + 1) / steps - first;
      // The last two steps ask for a half of the next block each: by then this
      // one is in cache, and memory would have nothing to do.
      const int64_t half = step - (steps - 2);
      if (ahead != nullptr && half >= 0 && columns == kPanelColumns &&
          kernels.ahead[height - 1] != nullptr) {
        kernels.ahead[height - 1](depth, a + first * a_row, a_row, b,
                                  c + first * ldc, ldc, add,
                                  ahead + half * (kPanelRow<T> / 2));
        continue;
      }
      kernels.kernels[height - 1][vectors - 1](
          depth, a + first * a_row, a_row, a_k, b + column * kPack<T>, b_k,
          c + first * ldc + column, ldc, last, add);
    }
  }
}

}  // namespace

template <typename T>
int64_t PanelBytes(int64_t k, int64_t n) {
  return (n + kPanelColumns - 1) / kPanelColumns * PanelRowsOf<T>(k) *
         kPanelRow<T> * static_cast<int64_t>(sizeof(T));
}

template <typename T, typename From>
void PackPanels(const PanelKernels<T>& kernels, const MatrixView<From>& b,
                int64_t k, int64_t n, T* packed) {
  for (int64_t column = 0; column < n; column += kPanelColumns) {
    PackBlock<T, From>(
        kernels,
        {b.data + column * b.column_stride, b.row_stride, b.column_stride}, k,
        std::min(kPanelColumns, n - column), packed);
    packed += PanelRowsOf<T>(k) * kPanelRow<T>;
  }
}

template <typename T>
void MultiplyPanels(const PanelKernels<T>& kernels, int64_t rows, int64_t begin,
                    int64_t end, int64_t k, const T* a, int64_t lda,
                    const T* packed, float* c, int64_t ldc) {
  // Rows of one step read the weight once, from end to end.
  const int64_t depth =
      rows > kernels.rows[kernels.vectors - 1]
          ? kPackedDepthBytes / static_cast<int64_t>(sizeof(T))
          : std::max<int64_t>(k, 1);
  const int64_t panel = PanelRowsOf<T>(k) * kPanelRow<T>;
  for (int64_t column = begin; column < end; column += kPanelColumns) {
    const T* const b = packed + column / kPanelColumns * panel;
    const int64_t columns = std::min(kPanelColumns, end - column);
    for (int64_t at = 0; at == 0 || at < k; at += depth) {
      const T* const block = b + at / kPack<T> * kPanelRow<T>;
      // Panels lie one after the other.
      const T* const next = block + depth / kPack<T> * kPanelRow<T>;
      const bool is_last = column + kPanelColumns >= end && at + depth >= k;
      MultiplyPanel(kernels, rows, columns, std::min(depth, k - at), a + at,
                    lda, 1, block, kPanelRow<T>, c + column - begin, ldc,
                    at > 0, is_last ? nullptr : next);
    }
  }
}

int64_t PanelScratchBytes() {
  return kDepthBytes * (kPanelColumns + kBlockRows);
}

template <typename T, typename From>
void MultiplyMatrices(const PanelKernels<T>& kernels, int64_t m, int64_t n,
                      int64_t k, const MatrixView<T>& a,
                      const MatrixView<From>& b, float* c, int64_t ldc,
                      void* scratch) {
  T* const panel = static_cast<T*>(scratch);
  T* const block = panel + kPanelColumns * kDepth<T>;
  const bool same = sizeof(T) == sizeof(From);
  // Only rows of f32 are what a panel's are.
  const bool in_place =
      same && kPack<T> == 1 && b.column_stride == 1 && m <= kInPlaceRows;
  // Pairs lie beside each other; and what is far apart is read once.
  const bool copies_a =
      a.column_stride != 1 && (kPack<T> > 1 || n > kPanelColumns);
  for (int64_t row = 0; row < m; row += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, m - row);
    for (int64_t at = 0; at == 0 || at < k; at += kDepth<T>) {
      const int64_t depth = std::min(kDepth<T>, k - at);
      MatrixView<T> left = {a.data + row * a.row_stride + at * a.column_stride,
                            a.row_stride, a.column_stride};
      if (copies_a) {
        for (int64_t l = 0; l < depth; ++l) {
          for (int64_t i = 0; i < rows; ++i) {
            block[i * kDepth<T> + l] =
                left.data[i * left.row_stride + l * left.column_stride];
          }
        }
        left = {block, kDepth<T>, 1};
      }
      for (int64_t column = 0; column < n; column += kPanelColumns) {
        const int64_t columns = std::min(kPanelColumns, n - column);
        const MatrixView<From> part = {
            b.data + at * b.row_stride + column * b.column_stride, b.row_stride,
            b.column_stride};
        const T* right = panel;
        int64_t right_stride = kPanelRow<T>;
        if (in_place) {
          right = reinterpret_cast<const T*>(part.data);
          right_stride = part.row_stride;
        } else {
          PackBlock(kernels, part, depth, columns, panel);
        }
        MultiplyPanel(kernels, rows, columns, depth, left.data, left.row_stride,
                      left.column_stride, right, right_stride,
                      c + row * ldc + column, ldc, at > 0);
      }
    }
  }
}

template <>
const PanelKernels<float>* HostPanelKernels() {
  if (HostCpu().avx512) return &Avx512PanelKernels();
  if (HostCpu().avx2) return &Avx2PanelKernels();
  return nullptr;
}

template <>
const PanelKernels<uint16_t>* HostPanelKernels() {
  return HostCpu().avx512bf16 ? &Avx512Bf16PanelKernels() : nullptr;
}

template int64_t PanelBytes<float>(int64_t, int64_t);
template int64_t PanelBytes<uint16_t>(int64_t, int64_t);
template void PackPanels(const PanelKernels<float>&, const MatrixView<float>&,
                         int64_t, int64_t, float*);
template void PackPanels(const PanelKernels<uint16_t>&,
                         const MatrixView<float>&, int64_t, int64_t, uint16_t*);
template void PackPanels(const PanelKernels<uint16_t>&,
                         const MatrixView<uint16_t>&, int64_t, int64_t,
                         uint16_t*);
template void MultiplyPanels(const PanelKernels<float>&, int64_t, int64_t,
                             int64_t, int64_t, const float*, int64_t,
                             const float*, float*, int64_t);
template void MultiplyPanels(const PanelKernels<uint16_t>&, int64_t, int64_t,
                             int64_t, int64_t, const uint16_t*, int64_t,
                             const uint16_t*, float*, int64_t);
template void MultiplyMatrices(const PanelKernels<float>&, int64_t, int64_t,
                               int64_t, const MatrixView<float>&,
                               const MatrixView<float>&, float*, int64_t,
                               void*);
template void MultiplyMatrices(const PanelKernels<uint16_t>&, int64_t, int64_t,
                               int64_t, const MatrixView<uint16_t>&,
                               const MatrixView<uint16_t>&, float*, int64_t,
                               void*);
template void MultiplyMatrices(const PanelKernels<uint16_t>&, int64_t, int64_t,
                               int64_t, const MatrixView<uint16_t>&,
                               const MatrixView<float>&, float*, int64_t,
                               void*);

}  // namespace tf_disc
