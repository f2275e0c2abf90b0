#include "cc/runtime/gemm_tiles.h"

#include <algorithm>

namespace tf_disc {
namespace {

// Time of a tile in tenths of a row of a large tile, k = n = 768 (measured).
// One row or three: the time is that of reading the weight.
constexpr std::array<int, kNumTiles> kTileCost = {
    33, 35, 36, 42, 52, 62, 72, 81, 122, 162, 242, 322, 482, 642};

constexpr int kMax = static_cast<int>(kMaxTileRows);

// Best first tile for each (rows, left), both up to kMaxTileRows; more rows are
// as good as kMaxTileRows, as no tile has more.
class TileTable {
 public:
  TileTable() {
    for (int rows = 1; rows <= kMax; ++rows) {
      std::array<int, kMax + 1> cost = {};
      for (int left = 1; left <= rows; ++left) {
        int best = 0;
        size_t best_tile = 0;
        for (size_t tile = 0; tile < kNumTiles; ++tile) {
          const int tile_rows = static_cast<int>(kTileRows[tile]);
          if (tile_rows > rows) break;
          const int total =
              kTileCost[tile] + cost[std::max(left - tile_rows, 0)];
          // The larger tile where both cost the same.
          if (tile == 0 || total <= best) {
            best = total;
            best_tile = tile;
          }
        }
        cost[left] = best;
        first_[rows][left] = static_cast<uint8_t>(best_tile);
      }
    }
  }

  size_t at(int64_t rows, int64_t left) const { return first_[rows][left]; }

 private:
  std::array<std::array<uint8_t, kMax + 1>, kMax + 1> first_ = {};
};

}  // namespace

size_t NextTile(int64_t rows, int64_t left) {
  static const TileTable* const table = new TileTable;
  if (left >= kMaxTileRows) return kNumTiles - 1;
  return table->at(std::min(rows, kMaxTileRows), left);
}

}  // namespace tf_disc
