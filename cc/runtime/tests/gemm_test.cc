#include "cc/runtime/gemm.h"

#include <dnnl.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/runtime/dnnl_library.h"
#include "cc/runtime/gemm_tiles.h"
#include "cc/runtime/tests/pool_host.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::Allocate;
using testing::CountThreads;
using testing::Memory;

std::vector<float> Random(int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = uniform(random);
  return values;
}

// A matrix with a leading dimension; what lies beyond its columns is NaN in
// sources and must stay NaN in results.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, int64_t stride, unsigned seed)
      : rows(rows), columns(columns), stride(stride) {
    const std::vector<float> values = Random(rows * columns, seed);
    data.assign(static_cast<size_t>(rows * stride + 1),
                std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < rows * columns; ++i) {
      data[i / columns * stride + i % columns] = values[i];
    }
  }
  float at(int64_t row, int64_t column) const {
    return data[row * stride + column];
  }
  int64_t rows, columns, stride;
  std::vector<float> data;
};

// c (which had `fill`, NaN, before) against the product in double.
void CheckProduct(const Matrix& a, bool ta, const Matrix& b, bool tb,
                  const Matrix& c, const std::string& what) {
  const int64_t k = ta ? a.rows : a.columns;
  double worst = 0;
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.stride; ++j) {
      if (j >= c.columns) {
        if (!std::isnan(c.at(i, j))) worst = 1e9;  // written beyond a row
        continue;
      }
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += static_cast<double>(ta ? a.at(l, i) : a.at(i, l)) *
               (tb ? b.at(j, l) : b.at(l, j));
      }
      const double difference = std::abs(sum - c.at(i, j));
      worst = difference <= worst ? worst : difference;  // NaN is worst
      if (std::isnan(difference)) worst = 1e9;
    }
  }
  if (!std::isnan(c.data.back())) worst = 1e9;
  // Terms are below 1: error grows with their number.
  if (worst > 1e-6 * static_cast<double>(k + 1)) {
    testing::Fail(__FILE__, __LINE__, absl::StrCat(what, ": off by ", worst));
  }
}

void CheckPacked(int64_t rows, int64_t k, int64_t n, bool transpose) {
  const std::string what =
      absl::StrCat("rows=", rows, " k=", k, " n=", n, " transpose=", transpose);
  const auto gemm = PackedGemm::Get(n, k, DISC_F32);
  if (!gemm.ok()) {
    testing::Fail(__FILE__, __LINE__,
                  absl::StrCat(what, ": ", gemm.status().message()));
    return;
  }
  if (!(*gemm)->can_pack()) return;
  const Matrix a(rows, k, k, 1);
  const Matrix b(transpose ? n : k, transpose ? k : n, transpose ? k : n, 2);
  Matrix c(rows, n, n, 3);
  c.data.assign(c.data.size(), std::numeric_limits<float>::quiet_NaN());
  const Memory packed = Allocate((*gemm)->packed_bytes());
  const Memory scratch = Allocate((*gemm)->scratch_bytes() + 64);
  ASSERT((*gemm)->Pack(b.data.data(), transpose, packed.get()).ok());
  const absl::Status status = (*gemm)->Run(rows, a.data.data(), packed.get(),
                                           c.data.data(), scratch.get());
  if (!status.ok()) {
    testing::Fail(__FILE__, __LINE__,
                  absl::StrCat(what, ": ", status.message()));
    return;
  }
  CheckProduct(a, false, b, transpose, c, what);
}

TEST(PackedAgainstNaive) {
  for (int64_t n : {16, 17, 63, 64, 65, 129}) {
    for (int64_t k : {1, 3, 17, 64, 129}) {
      for (int64_t rows : {0, 1, 3, 17, 63, 64, 65, 129}) {
        for (bool transpose : {false, true}) {
          CheckPacked(rows, k, n, transpose);
        }
      }
    }
  }
}

TEST(TilesCoverEveryCountOfRows) {
  for (int64_t rows = 1; rows < 300; ++rows) {
    int64_t left = rows;
    int64_t computed = 0;
    int tiles = 0;
    while (left > 0) {
      const size_t tile = NextTile(rows, left);
      ASSERT(tile < kNumTiles && kTileRows[tile] <= rows);
      left -= kTileRows[tile];
      computed += kTileRows[tile];
      ++tiles;
    }
    // Little is computed twice, and the last 64 rows take three calls at most.
    EXPECT(computed - rows <= 1 + rows / 16);
    EXPECT(tiles <= rows / 64 + 3);
  }
}

TEST(PackedForEveryCountOfRows) {
  for (int64_t rows = 1; rows <= 130; ++rows) {
    CheckPacked(rows, 20, 33, false);
  }
}

TEST(PackedFamiliesAreShared) {
  const auto first = PackedGemm::Get(64, 32, DISC_F32);
  const auto second = PackedGemm::Get(64, 32, DISC_F32);
  const auto other = PackedGemm::Get(32, 64, DISC_F32);
  ASSERT(first.ok() && second.ok() && other.ok());
  EXPECT(first->get() == second->get());
  EXPECT(first->get() != other->get());
}

TEST(WhatIsNotPacked) {
  for (const auto& size :
       {std::pair<int64_t, int64_t>(0, 5), {5, 0}, {1, 64}, {15, 64}, {0, 0}}) {
    const auto gemm = PackedGemm::Get(size.first, size.second, DISC_F32);
    ASSERT(gemm.ok());
    EXPECT(!(*gemm)->can_pack());
  }
  EXPECT(absl::IsUnimplemented(PackedGemm::Get(64, 64, DISC_BF16).status()));
  EXPECT(absl::IsInvalidArgument(PackedGemm::Get(-1, 64, DISC_F32).status()));
}

TEST(OnePackedWeightFromManyThreads) {
  const int64_t k = 96, n = 80;
  const auto gemm = PackedGemm::Get(n, k, DISC_F32);
  ASSERT(gemm.ok());
  if (!(*gemm)->can_pack()) return;
  const Matrix b(k, n, n, 2);
  const Memory packed = Allocate((*gemm)->packed_bytes());
  ASSERT((*gemm)->Pack(b.data.data(), false, packed.get()).ok());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Memory scratch = Allocate((*gemm)->scratch_bytes() + 64);
      for (int64_t rows = 1; rows < 130; rows += 7) {
        const Matrix a(rows, k, k, t);
        Matrix c(rows, n, n, 3);
        c.data.back() = std::numeric_limits<float>::quiet_NaN();
        EXPECT((*gemm)
                   ->Run(rows, a.data.data(), packed.get(), c.data.data(),
                         scratch.get())
                   .ok());
        CheckProduct(a, false, b, false, c, "threads");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(DenseAgainstNaive) {
  for (int64_t m : {0, 1, 3, 17, 64, 129}) {
    for (int64_t n : {0, 1, 3, 17, 65}) {
      for (int64_t k : {0, 1, 3, 64, 129}) {
        for (int flags = 0; flags < 4; ++flags) {
          for (int64_t extra : {0, 5}) {
            const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
            const Matrix a(ta ? k : m, ta ? m : k, (ta ? m : k) + extra, 1);
            const Matrix b(tb ? n : k, tb ? k : n, (tb ? k : n) + extra, 2);
            Matrix c(m, n, n + extra, 3);
            // k = 0 gives zeros and nothing of c is read.
            c.data.assign(c.data.size(),
                          std::numeric_limits<float>::quiet_NaN());
            const absl::Status status =
                DenseGemm(ta, tb, m, n, k, a.data.data(), a.stride,
                          b.data.data(), b.stride, c.data.data(), c.stride);
            EXPECT(status.ok());
            CheckProduct(
                a, ta, b, tb, c,
                absl::StrCat("dense ", m, "x", n, "x", k, " flags ", flags));
          }
        }
      }
    }
  }
}

TEST(DenseOfOneRowTakesAnyLeadingDimension) {
  const Matrix a(1, 9, 9, 1);
  const Matrix b(9, 7, 7, 2);
  Matrix c(1, 7, 7, 3);
  c.data.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT(DenseGemm(false, false, 1, 7, 9, a.data.data(), 0, b.data.data(), 7,
                   c.data.data(), 0)
             .ok());
  CheckProduct(a, false, b, false, c, "one row");
}

TEST(DenseRefusesOverlappingRows) {
  std::vector<float> a(100), b(100), c(100);
  const absl::Status status =
      DenseGemm(false, false, 4, 4, 9, a.data(), 3, b.data(), 4, c.data(), 4);
  EXPECT(absl::IsInternal(status));
}

// Through every kind of oneDNN call; large enough that an OpenMP build would
// start its team.
TEST(NoThreadIsAdded) {
  const auto dnnl = GetDnnlLibrary();
  ASSERT(dnnl.ok());
  // This thread's count stays what it was, also when it is more than one.
  (*dnnl)->omp_set_num_threads(3);
  const int before = CountThreads();
  ASSERT(before >= 1);
  CheckPacked(200, 700, 900, true);
  CheckPacked(200, 700, 900, false);
  std::vector<float> a(512 * 512), b(512 * 512), c(512 * 512);
  EXPECT(DenseGemm(false, true, 512, 512, 512, a.data(), 512, b.data(), 512,
                   c.data(), 512)
             .ok());
  EXPECT_EQ(CountThreads(), before);
  EXPECT_EQ((*dnnl)->omp_get_max_threads(), 3);
  // The check can fail: without the guard the same product starts a team.
  (*dnnl)->sgemm('N', 'N', 512, 512, 512, 1.0f, a.data(), 512, b.data(), 512,
                 0.0f, c.data(), 512);
  EXPECT(CountThreads() > before);
}

TEST(MissingLibraryIsAReason) {
  SetDnnlLibraryPath("/nonexistent/libtf_disc_dnnl.so.3");
  float value = 1.0f;
  const absl::Status dense =
      DenseGemm(false, false, 1, 1, 1, &value, 1, &value, 1, &value, 1);
  EXPECT(absl::IsUnavailable(dense));
  EXPECT(dense.message().find("/nonexistent/libtf_disc_dnnl.so.3") !=
         dense.message().npos);
  EXPECT(absl::IsUnavailable(PackedGemm::Get(64, 64, DISC_F32).status()));
  // No elements need no library.
  EXPECT(
      DenseGemm(false, false, 0, 1, 1, &value, 1, &value, 1, &value, 1).ok());
  SetDnnlLibraryPath("");
  float product = 0.0f;
  EXPECT(
      DenseGemm(false, false, 1, 1, 1, &value, 1, &value, 1, &product, 1).ok());
  EXPECT_EQ(product, 1.0f);
}

}  // namespace
}  // namespace tf_disc
