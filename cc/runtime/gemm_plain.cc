#include "cc/runtime/gemm_plain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/manifest.h"
#include "cc/runtime/thread_scratch.h"

namespace tf_disc {
namespace {

// A block of a is [kBlockRows, depth], one of b [depth, vectors of a tile]:
// 256 KB and at most 96 KB, so that both stay in L2 and a tile's rows (16 KB)
// in L1.
constexpr int64_t kBlockRows = 128;
constexpr int64_t kDepthBytes = 2048;
constexpr int64_t kMaxVectorBytes = 64;
constexpr int64_t kBlockBytes = kBlockRows * kDepthBytes;
// depth x columns of a tile: elements of 4 bytes are the most.
constexpr int64_t kPanelBytes =
    kDepthBytes / 4 * kMaxTileVectors * kMaxVectorBytes;
// Rows up to which packing b costs more than reading it with its stride.
constexpr int64_t kMaxUnpackedRows = 2 * kMaxTileRows512;

// Packs op(a)[row .. row + rows, at .. at + depth] as tiles of `tile` rows (the
// last may have fewer), column after column. a(i, l) is a[i * ri + l * rl].
template <typename T>
void PackRows(const T* a, int64_t row_stride, int64_t depth_stride,
              int64_t rows, int64_t depth, int64_t tile, T* packed) {
  for (int64_t first = 0; first < rows; first += tile) {
    const int64_t height = std::min(tile, rows - first);
    const T* const from = a + first * row_stride;
    // The walk along memory is the inner one.
    if (row_stride == 1) {
      for (int64_t l = 0; l < depth; ++l) {
        for (int64_t i = 0; i < height; ++i) {
          packed[l * height + i] = from[i + l * depth_stride];
        }
      }
    } else {
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t l = 0; l < depth; ++l) {
          packed[l * height + i] = from[i * row_stride + l * depth_stride];
        }
      }
    }
    packed += height * depth;
  }
}

// Packs `columns` columns of op(b) row by row, each row filled up to `width`
// with zeros: what they give is never stored.
template <typename T>
void PackColumns(const T* b, int64_t depth_stride, int64_t column_stride,
                 int64_t depth, int64_t columns, int64_t width, T* packed) {
  if (column_stride == 1) {
    for (int64_t l = 0; l < depth; ++l) {
      T* const row =
          std::copy_n(b + l * depth_stride, columns, packed + l * width);
      std::fill_n(row, width - columns, T(0));
    }
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t l = 0; l < depth; ++l) {
      packed[l * width + j] = b[l * depth_stride + j * column_stride];
    }
  }
  for (int64_t l = 0; l < depth && columns < width; ++l) {
    std::fill_n(packed + l * width + columns, width - columns, T(0));
  }
}

template <typename T>
absl::Status Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                      int64_t k, const void* a, int64_t lda, const void* b,
                      int64_t ldb, void* c, int64_t ldc) {
  if (m <= 0 || n <= 0) return absl::OkStatus();
  T* const result = static_cast<T*>(c);
  if (k <= 0) {
    for (int64_t row = 0; row < m; ++row) {
      std::fill_n(result + row * ldc, n, T(0));
    }
    return absl::OkStatus();
  }
  const TileKernels<T>* const kernels = HostTileKernels<T>();
  if (kernels == nullptr) {
    return absl::UnimplementedError("products of this type need SSE4.2");
  }
  void* const scratch = ThreadScratch(PlainGemmScratchBytes());
  if (scratch == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the ", PlainGemmScratchBytes(), " bytes of a product"));
  }
  PlainGemmWith<T>(*kernels, transpose_a, transpose_b, m, n, k,
                   static_cast<const T*>(a), lda, static_cast<const T*>(b), ldb,
                   result, ldc, scratch);
  return absl::OkStatus();
}

}  // namespace

int64_t PlainGemmScratchBytes() { return kBlockBytes + kPanelBytes; }

template <typename T>
const TileKernels<T>* HostTileKernels() {
  const CpuFeatures& cpu = HostCpu();
  if (cpu.avx512) return &Avx512TileKernels<T>();
  if (cpu.avx2) return &Avx2TileKernels<T>();
  if (cpu.sse42) return &Sse42TileKernels<T>();
  return nullptr;
}

template <typename T>
void PlainGemmWith(const TileKernels<T>& kernels, bool transpose_a,
                   bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                   int64_t ldc, void* scratch) {
  const int64_t a_row = transpose_a ? 1 : lda;
  const int64_t a_depth = transpose_a ? lda : 1;
  const int64_t b_depth = transpose_b ? 1 : ldb;
  const int64_t b_column = transpose_b ? ldb : 1;
  const int64_t max_depth = kDepthBytes / static_cast<int64_t>(sizeof(T));
  const int64_t tile_columns = kMaxTileVectors * kernels.lanes;
  const int64_t tile_rows = kernels.max_rows;
  T* const block = static_cast<T*>(scratch);
  T* const panel = block + kBlockBytes / sizeof(T);
  // A tile whose last columns do not exist is computed here first.
  alignas(kMaxVectorBytes)
      T edge[kMaxTileRows512 * kMaxTileVectors * kMaxVectorBytes / sizeof(T)];

  for (int64_t at = 0; at < k; at += max_depth) {
    const int64_t depth = std::min(max_depth, k - at);
    const bool add = at > 0;
    for (int64_t row = 0; row < m; row += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, m - row);
      PackRows(a + row * a_row + at * a_depth, a_row, a_depth, rows, depth,
               tile_rows, block);
      for (int64_t column = 0; column < n; column += tile_columns) {
        const int64_t columns = std::min(tile_columns, n - column);
        const int64_t vectors = (columns + kernels.lanes - 1) / kernels.lanes;
        const int64_t width = vectors * kernels.lanes;
        const T* right = b + at * b_depth + column * b_column;
        int64_t right_stride = ldb;
        if (transpose_b || columns < width || rows > kMaxUnpackedRows) {
          PackColumns(right, b_depth, b_column, depth, columns, width, panel);
          right = panel;
          right_stride = width;
        }
        for (int64_t first = 0; first < rows; first += tile_rows) {
          const int64_t height = std::min(tile_rows, rows - first);
          const TileKernel<T> kernel = kernels.kernels[height - 1][vectors - 1];
          const T* const left = block + first * depth;
          T* const to = c + (row + first) * ldc + column;
          if (columns == width) {
            kernel(depth, left, right, right_stride, to, ldc, add);
            continue;
          }
          kernel(depth, left, right, right_stride, edge, width, false);
          for (int64_t i = 0; i < height; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
              T& element = to[i * ldc + j];
              element =
                  add ? element + edge[i * width + j] : edge[i * width + j];
            }
          }
        }
      }
    }
  }
}

absl::Status PlainGemm(disc_dtype dtype, bool transpose_a, bool transpose_b,
                       int64_t m, int64_t n, int64_t k, const void* a,
                       int64_t lda, const void* b, int64_t ldb, void* c,
                       int64_t ldc) {
  switch (dtype) {
    case DISC_F64:
      return Multiply<double>(transpose_a, transpose_b, m, n, k, a, lda, b, ldb,
                              c, ldc);
    case DISC_I32:
      return Multiply<uint32_t>(transpose_a, transpose_b, m, n, k, a, lda, b,
                                ldb, c, ldc);
    case DISC_I64:
      return Multiply<uint64_t>(transpose_a, transpose_b, m, n, k, a, lda, b,
                                ldb, c, ldc);
    default:
      return absl::UnimplementedError(
          absl::StrCat("a product of ", AbiDtypeName(dtype)));
  }
}

template const TileKernels<double>* HostTileKernels();
template const TileKernels<uint32_t>* HostTileKernels();
template const TileKernels<uint64_t>* HostTileKernels();
template void PlainGemmWith(const TileKernels<double>&, bool, bool, int64_t,
                            int64_t, int64_t, const double*, int64_t,
                            const double*, int64_t, double*, int64_t, void*);
template void PlainGemmWith(const TileKernels<uint32_t>&, bool, bool, int64_t,
                            int64_t, int64_t, const uint32_t*, int64_t,
                            const uint32_t*, int64_t, uint32_t*, int64_t,
                            void*);
template void PlainGemmWith(const TileKernels<uint64_t>&, bool, bool, int64_t,
                            int64_t, int64_t, const uint64_t*, int64_t,
                            const uint64_t*, int64_t, uint64_t*, int64_t,
                            void*);

}  // namespace tf_disc
