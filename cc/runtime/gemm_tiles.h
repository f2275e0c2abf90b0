// How a count of rows is cut into the tiles that have a primitive.
#ifndef TF_DISC_CC_RUNTIME_GEMM_TILES_H_
#define TF_DISC_CC_RUNTIME_GEMM_TILES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tf_disc {

// Rows of the tiles, ascending. oneDNN runs any of them from 4 rows up at 105
// to 116 GFLOP/s, so that a count cut into two or three tiles of nearly its
// size loses nothing, where powers of two lose up to a third (15 rows as
// 8+4+2+1: 96; as 8+7: 113). docs/adr/0011-gemm-tiles.md has the figures.
constexpr std::array<int64_t, 14> kTileRows = {1, 2,  3,  4,  5,  6,  7,
                                               8, 12, 16, 24, 32, 48, 64};
constexpr size_t kNumTiles = kTileRows.size();
constexpr int64_t kMaxTileRows = kTileRows[kNumTiles - 1];

// The next tile when `left` of `rows` rows are still to do; 1 <= left <= rows.
// Returns an index into kTileRows. The tile may have more than `left` rows, but
// never more than `rows`: it then begins before the rows that are left and
// computes some a second time, which costs less than several small tiles.
size_t NextTile(int64_t rows, int64_t left);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_GEMM_TILES_H_
