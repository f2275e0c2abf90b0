#include "cc/runtime/gemm.h"

#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/dnnl_library.h"
#include "cc/runtime/gemm_tiles.h"
#include "cc/runtime/manifest.h"
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

float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// A matrix of f32 or bf16 with a leading dimension; what lies beyond its
// columns is NaN in sources and must stay NaN in results.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, int64_t stride, unsigned seed,
         disc_dtype dtype = DISC_F32)
      : rows(rows), columns(columns), stride(stride), dtype(dtype) {
    const std::vector<float> values = Random(rows * columns, seed);
    data.assign(static_cast<size_t>(rows * stride + 1),
                std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < rows * columns; ++i) {
      data[i / columns * stride + i % columns] = values[i];
    }
    for (float& value : data) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      // Numbers that bf16 has, so that nothing is rounded but by products.
      if (dtype == DISC_BF16) value = FromBf16(bits >> 16);
      short_data.push_back(static_cast<uint16_t>(bits >> 16));
    }
  }
  float at(int64_t row, int64_t column) const {
    return data[row * stride + column];
  }
  const void* pointer() const {
    if (dtype == DISC_BF16) return short_data.data();
    return data.data();
  }
  int64_t rows, columns, stride;
  disc_dtype dtype;
  std::vector<float> data;
  std::vector<uint16_t> short_data;
};

// All NaN.
Matrix Result(int64_t rows, int64_t columns, int64_t stride) {
  Matrix c(rows, columns, stride, 3);
  c.data.assign(c.data.size(), std::numeric_limits<float>::quiet_NaN());
  return c;
}

// c against the product in double.
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

// The levels of x86-64 at which products differ, as far as this CPU has them.
const char* const kLevels[] = {"x86-64-v2", "x86-64-v3", ""};

using Family = absl::StatusOr<std::shared_ptr<const PackedGemm>> (*)(
    int64_t n, int64_t k, disc_dtype dtype);

// A part of the columns, from wide rows into wide rows; then the same from the
// weight as it is, which must give the same bits where both are ours.
void CheckPacked(Family family, disc_dtype dtype, int64_t rows, int64_t k,
                 int64_t n, bool transpose, bool is_strided = false) {
  const std::string what =
      absl::StrCat(AbiDtypeName(dtype), " rows=", rows, " k=", k, " n=", n,
                   " transpose=", transpose);
  const auto gemm = family(n, k, dtype);
  if (!gemm.ok()) {
    testing::Fail(__FILE__, __LINE__,
                  absl::StrCat(what, ": ", gemm.status().message()));
    return;
  }
  if (!(*gemm)->can_pack()) return;
  const int64_t begin = is_strided && n > 64 ? 64 : 0;
  const int64_t end = is_strided ? std::max<int64_t>(begin + 1, n - 3) : n;
  const int64_t extra = is_strided ? 5 : 0;
  const Matrix a(rows, k, k + extra, 1, dtype);
  // Packing rounds, so that the weight has to have numbers of `dtype`.
  Matrix b(transpose ? n : k, transpose ? k : n, transpose ? k : n, 2, dtype);
  Matrix c = Result(rows, end - begin, end - begin + extra);
  const Memory packed = Allocate((*gemm)->packed_bytes());
  const Memory scratch = Allocate((*gemm)->scratch_bytes() + 64);
  ASSERT((*gemm)->Pack(b.data.data(), DISC_F32, transpose, packed.get()).ok());
  const absl::Status status =
      (*gemm)->Run(rows, begin, end, a.pointer(), a.stride, packed.get(),
                   c.data.data(), c.stride, scratch.get());
  if (!status.ok()) {
    testing::Fail(__FILE__, __LINE__,
                  absl::StrCat(what, ": ", status.message()));
    return;
  }
  Matrix part(b.rows, b.columns, b.stride, 2, dtype);
  if (transpose) {
    part.data.erase(part.data.begin(), part.data.begin() + begin * k);
    part.rows = end - begin;
  } else {
    part.data.erase(part.data.begin(), part.data.begin() + begin);
    part.columns = end - begin;
  }
  CheckProduct(a, false, part, transpose, c, what);
  for (const disc_dtype stored : {DISC_F32, DISC_BF16}) {
    if (stored == DISC_BF16 && dtype != DISC_BF16) continue;
    b.dtype = stored;
    Matrix again = Result(rows, end - begin, end - begin + extra);
    const StoredWeight weight = {b.pointer(), stored, transpose, k, n};
    EXPECT(UnpackedGemm(dtype, rows, begin, end, a.pointer(), a.stride, weight,
                        again.data.data(), again.stride)
               .ok());
    CheckProduct(a, false, part, transpose, again, what + " unpacked");
    if (family == &PackedGemm::Get && HostCpu().avx2) {
      EXPECT(std::memcmp(again.data.data(), c.data.data(),
                         c.data.size() * sizeof(float)) == 0);
    }
  }
}

// By every way that this CPU has, at every level.
void CheckPackedWays(int64_t rows, int64_t k, int64_t n, bool transpose,
                     bool is_strided = false) {
  for (const char* level : kLevels) {
    ASSERT(LimitHostCpu(level).ok());
    for (const disc_dtype dtype : {DISC_F32, DISC_BF16}) {
      if (dtype == DISC_BF16 && !HostCpu().avx512bf16) continue;
      CheckPacked(&PackedGemm::Get, dtype, rows, k, n, transpose, is_strided);
    }
  }
  ASSERT(LimitHostCpu("").ok());
}

TEST(PackedAgainstNaive) {
  for (int64_t n : {16, 17, 63, 64, 65, 129, 200}) {
    for (int64_t k : {1, 2, 3, 17, 64, 129}) {
      for (int64_t rows : {0, 1, 3, 7, 17, 63, 64, 65, 129}) {
        for (bool transpose : {false, true}) {
          CheckPackedWays(rows, k, n, transpose);
          if (rows < 20) CheckPackedWays(rows, k, n, transpose, true);
        }
      }
    }
  }
  // Deeper than a block.
  CheckPackedWays(70, 2500, 70, false);
  CheckPackedWays(13, 2501, 70, true, true);
}

TEST(PackedByDnnl) {
  for (const disc_dtype dtype : {DISC_F32, DISC_BF16}) {
    if (dtype == DISC_BF16 && !HostCpu().avx512bf16) continue;
    for (int64_t n : {17, 64, 129}) {
      for (int64_t rows : {0, 1, 3, 17, 64, 65, 129}) {
        for (int flags = 0; flags < 4; ++flags) {
          CheckPacked(&PackedGemm::GetDnnl, dtype, rows, 33, n,
                      (flags & 1) != 0, (flags & 2) != 0);
        }
      }
    }
  }
}

// Neither the cut of rows nor that of columns changes a bit.
TEST(CutsChangeNothing) {
  const int64_t rows = 29, k = 1500, n = 200;
  for (const disc_dtype dtype : {DISC_F32, DISC_BF16}) {
    if (dtype == DISC_BF16 && !HostCpu().avx512bf16) continue;
    if (!HostCpu().avx2) continue;
    const auto gemm = PackedGemm::Get(n, k, dtype);
    ASSERT(gemm.ok());
    const Matrix a(rows, k, k, 1, dtype), b(k, n, n, 2, dtype);
    const Memory packed = Allocate((*gemm)->packed_bytes());
    const Memory scratch = Allocate((*gemm)->scratch_bytes() + 64);
    ASSERT((*gemm)->Pack(b.data.data(), DISC_F32, false, packed.get()).ok());
    Matrix whole = Result(rows, n, n), cut = Result(rows, n, n);
    ASSERT((*gemm)
               ->Run(rows, 0, n, a.pointer(), k, packed.get(),
                     whole.data.data(), n, scratch.get())
               .ok());
    const int64_t item = AbiDtypeSize(dtype);
    for (int64_t row = 0; row < rows; row += 5) {
      for (int64_t column = 0; column < n; column += 64) {
        const char* const from =
            static_cast<const char*>(a.pointer()) + row * k * item;
        ASSERT((*gemm)
                   ->Run(std::min<int64_t>(5, rows - row), column,
                         std::min<int64_t>(n, column + 64), from, k,
                         packed.get(), cut.data.data() + row * n + column, n,
                         scratch.get())
                   .ok());
      }
    }
    EXPECT(std::memcmp(whole.data.data(), cut.data.data(),
                       cut.data.size() * sizeof(float)) == 0);
  }
}

// To nearest even, as the vectors' own instruction does; NaN stays NaN, and no
// number becomes one.
TEST(PackingRounds) {
  if (!HostCpu().avx512bf16) return;
  const auto bits = [](uint32_t value) {
    float number;
    std::memcpy(&number, &value, sizeof(number));
    return number;
  };
  struct {
    uint32_t from, to;
  } const kCases[] = {
      {0x3f808000, 0x3f800000}, {0x3f818000, 0x3f820000},
      {0x3f808001, 0x3f810000}, {0x3f807fff, 0x3f800000},
      {0x7f7fffff, 0x7f800000}, {0x7f800000, 0x7f800000},
      {0xff800000, 0xff800000}, {0x80000000, 0x80000000},
  };
  const auto gemm = PackedGemm::Get(16, 1, DISC_BF16);
  ASSERT(gemm.ok());
  std::vector<float> weight(16, 1.0f), c(16);
  for (size_t i = 0; i < std::size(kCases); ++i)
    weight[i] = bits(kCases[i].from);
  weight[15] = bits(0x7f800001);
  const Memory packed = Allocate((*gemm)->packed_bytes());
  const Memory scratch = Allocate((*gemm)->scratch_bytes() + 64);
  ASSERT((*gemm)->Pack(weight.data(), DISC_F32, false, packed.get()).ok());
  const uint16_t one = 0x3f80;
  ASSERT((*gemm)
             ->Run(1, 0, 16, &one, 1, packed.get(), c.data(), 16, scratch.get())
             .ok());
  for (size_t i = 0; i < std::size(kCases); ++i) {
    EXPECT_EQ(c[i], bits(kCases[i].to));
  }
  EXPECT(std::isnan(c[15]));
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
    CheckPackedWays(rows, 20, 33, false);
    CheckPacked(&PackedGemm::GetDnnl, DISC_F32, rows, 20, 33, false);
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
  EXPECT(absl::IsUnimplemented(PackedGemm::Get(64, 64, DISC_F16).status()));
  ASSERT(LimitHostCpu("x86-64-v3").ok());
  const absl::Status lacking = PackedGemm::Get(64, 64, DISC_BF16).status();
  EXPECT(absl::IsUnimplemented(lacking));
  EXPECT(absl::StrContains(lacking.message(), "AVX512-BF16"));
  ASSERT(LimitHostCpu("").ok());
  EXPECT(absl::IsInvalidArgument(PackedGemm::Get(-1, 64, DISC_F32).status()));
}

void CheckThreads(Family family) {
  const int64_t k = 96, n = 80;
  const auto gemm = family(n, k, DISC_F32);
  ASSERT(gemm.ok());
  if (!(*gemm)->can_pack()) return;
  const Matrix b(k, n, n, 2);
  const Memory packed = Allocate((*gemm)->packed_bytes());
  ASSERT((*gemm)->Pack(b.data.data(), DISC_F32, false, packed.get()).ok());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Memory scratch = Allocate((*gemm)->scratch_bytes() + 64);
      for (int64_t rows = 1; rows < 130; rows += 7) {
        const Matrix a(rows, k, k, t);
        Matrix c = Result(rows, n, n);
        EXPECT((*gemm)
                   ->Run(rows, 0, n, a.data.data(), k, packed.get(),
                         c.data.data(), n, scratch.get())
                   .ok());
        CheckProduct(a, false, b, false, c, "threads");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(OnePackedWeightFromManyThreads) {
  CheckThreads(&PackedGemm::Get);
  CheckThreads(&PackedGemm::GetDnnl);
}

void CheckDense(disc_dtype dtype, bool ta, bool tb, int64_t m, int64_t n,
                int64_t k, int64_t extra) {
  const Matrix a(ta ? k : m, ta ? m : k, (ta ? m : k) + extra, 1, dtype);
  const Matrix b(tb ? n : k, tb ? k : n, (tb ? k : n) + extra, 2, dtype);
  // k = 0 gives zeros and nothing of c is read.
  Matrix c = Result(m, n, n + extra);
  const absl::Status status =
      DenseGemm(dtype, ta, tb, m, n, k, a.pointer(), a.stride, b.pointer(),
                b.stride, c.data.data(), c.stride);
  EXPECT(status.ok());
  CheckProduct(a, ta, b, tb, c,
               absl::StrCat("dense ", AbiDtypeName(dtype), " ", m, "x", n, "x",
                            k, " transposed ", ta, tb));
}

TEST(DenseAgainstNaive) {
  for (const char* level : kLevels) {
    ASSERT(LimitHostCpu(level).ok());
    for (const disc_dtype dtype : {DISC_F32, DISC_BF16}) {
      if (dtype == DISC_BF16 && !HostCpu().avx512bf16) continue;
      for (int flags = 0; flags < 4; ++flags) {
        const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
        for (int64_t extra : {0, 5}) {
          for (int64_t m : {0, 1, 3, 13, 17, 64, 129}) {
            for (int64_t n : {0, 1, 3, 17, 65}) {
              for (int64_t k : {0, 1, 2, 3, 17, 64, 129}) {
                CheckDense(dtype, ta, tb, m, n, k, extra);
              }
            }
          }
          // Deeper than a block, more rows than a block.
          CheckDense(dtype, ta, tb, 5, 70, 2501, extra);
          CheckDense(dtype, ta, tb, 205, 70, 1030, extra);
        }
      }
    }
  }
  ASSERT(LimitHostCpu("").ok());
}

TEST(WhatIsNotFiniteSpreads) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const char* level : kLevels) {
    ASSERT(LimitHostCpu(level).ok());
    std::vector<float> a = {0, 0, inf, 1}, b = {inf, 2, 1, 1}, c(4);
    ASSERT(DenseGemm(DISC_F32, false, false, 2, 2, 2, a.data(), 2, b.data(), 2,
                     c.data(), 2)
               .ok());
    EXPECT(std::isnan(c[0]));  // 0 inf + 0 1
    EXPECT_EQ(c[1], 0.0f);
    EXPECT_EQ(c[2], inf);
    EXPECT_EQ(c[3], inf);
  }
  ASSERT(LimitHostCpu("").ok());
}

TEST(DenseOfOneRowTakesAnyLeadingDimension) {
  const Matrix a(1, 9, 9, 1);
  const Matrix b(9, 7, 7, 2);
  for (const char* level : kLevels) {
    ASSERT(LimitHostCpu(level).ok());
    Matrix c = Result(1, 7, 7);
    EXPECT(DenseGemm(DISC_F32, false, false, 1, 7, 9, a.data.data(), 0,
                     b.data.data(), 7, c.data.data(), 0)
               .ok());
    CheckProduct(a, false, b, false, c, "one row");
  }
  ASSERT(LimitHostCpu("").ok());
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
  CheckPacked(&PackedGemm::GetDnnl, DISC_F32, 200, 700, 900, true);
  CheckPacked(&PackedGemm::GetDnnl, DISC_F32, 200, 700, 900, false);
  std::vector<float> a(512 * 512), b(512 * 512), c(512 * 512);
  ASSERT(LimitHostCpu("x86-64-v2").ok());
  EXPECT(DenseGemm(DISC_F32, false, true, 512, 512, 512, a.data(), 512,
                   b.data(), 512, c.data(), 512)
             .ok());
  ASSERT(LimitHostCpu("").ok());
  EXPECT_EQ(CountThreads(), before);
  EXPECT_EQ((*dnnl)->omp_get_max_threads(), 3);
  // The check can fail: without the guard the same product starts a team.
  (*dnnl)->sgemm('N', 'N', 512, 512, 512, 1.0f, a.data(), 512, b.data(), 512,
                 0.0f, c.data(), 512);
  EXPECT(CountThreads() > before);
}

TEST(MissingLibraryIsAReason) {
  ASSERT(LimitHostCpu("x86-64-v2").ok());
  SetDnnlLibraryPath("/nonexistent/libtf_disc_dnnl.so.3");
  float value = 1.0f;
  const auto product = [&](int64_t rows, float* result) {
    return DenseGemm(DISC_F32, false, false, rows, 1, 1, &value, 1, &value, 1,
                     result, 1);
  };
  const absl::Status dense = product(1, &value);
  EXPECT(absl::IsUnavailable(dense));
  EXPECT(dense.message().find("/nonexistent/libtf_disc_dnnl.so.3") !=
         dense.message().npos);
  EXPECT(absl::IsUnavailable(PackedGemm::Get(64, 64, DISC_F32).status()));
  // No elements need no library.
  EXPECT(product(0, &value).ok());
  SetDnnlLibraryPath("");
  float result = 0.0f;
  EXPECT(product(1, &result).ok());
  EXPECT_EQ(result, 1.0f);
  ASSERT(LimitHostCpu("").ok());
}

}  // namespace
}  // namespace tf_disc
