#include "cc/runtime/gemm_plain.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"
#include "cc/runtime/tests/pool_host.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

using testing::Allocate;
using testing::Memory;

// What lies beyond a row's columns, and what results hold before.
template <typename T>
T Untouched() {
  if constexpr (std::is_same_v<T, double>) return 1e300;
  return T(0x5A5A5A5A);
}

// A matrix with a leading dimension; all bits of integers vary, so that
// products wrap around.
template <typename T>
struct Matrix {
  Matrix(int64_t rows, int64_t columns, int64_t stride, unsigned seed)
      : rows(rows),
        columns(columns),
        stride(stride),
        data(static_cast<size_t>(rows * stride + 1), Untouched<T>()) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    for (int64_t i = 0; i < rows * columns; ++i) {
      T& element = data[i / columns * stride + i % columns];
      if constexpr (std::is_same_v<T, double>) {
        element = uniform(random);
      } else {
        element = static_cast<T>(random());
      }
    }
  }
  T at(int64_t row, int64_t column) const {
    return data[row * stride + column];
  }
  int64_t rows, columns, stride;
  std::vector<T> data;
};

template <typename T>
bool Near(T found, T expected, int64_t k) {
  if constexpr (std::is_same_v<T, double>) {
    return std::abs(found - expected) <= 2e-16 * static_cast<double>(k + 1);
  }
  return found == expected;
}

// `multiply` is what is tested: (a, ta, b, tb, k, c).
template <typename T, typename Multiply>
void Check(int64_t m, int64_t n, int64_t k, bool ta, bool tb, int64_t extra,
           const Multiply& multiply) {
  const int64_t a_columns = ta ? m : k;
  const int64_t b_columns = tb ? k : n;
  const Matrix<T> a(ta ? k : m, a_columns, a_columns + extra, 1);
  const Matrix<T> b(tb ? n : k, b_columns, b_columns + extra, 2);
  Matrix<T> c(m, n, n + extra, 3);
  c.data.assign(c.data.size(), Untouched<T>());
  multiply(a, ta, b, tb, k, &c);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c.stride; ++j) {
      T expected = Untouched<T>();
      if (j < n) {
        expected = 0;
        for (int64_t l = 0; l < k; ++l) {
          expected +=
              (ta ? a.at(l, i) : a.at(i, l)) * (tb ? b.at(j, l) : b.at(l, j));
        }
      }
      if (!Near(c.at(i, j), expected, k)) {
        testing::Fail(
            __FILE__, __LINE__,
            absl::StrCat("m=", m, " n=", n, " k=", k, " ta=", ta, " tb=", tb,
                         " extra=", extra, " element [", i, ", ", j,
                         "]: ", c.at(i, j), ", expected ", expected));
        return;
      }
    }
  }
  EXPECT(c.data.back() == Untouched<T>());
}

template <typename T>
void CheckKernels(const TileKernels<T>& kernels) {
  const Memory scratch = Allocate(PlainGemmScratchBytes());
  const auto multiply = [&](const Matrix<T>& a, bool ta, const Matrix<T>& b,
                            bool tb, int64_t k, Matrix<T>* c) {
    PlainGemmWith<T>(kernels, ta, tb, c->rows, c->columns, k, a.data.data(),
                     a.stride, b.data.data(), b.stride, c->data.data(),
                     c->stride, scratch.get());
  };
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      // Every count of rows of a tile and of a last vector's columns.
      for (int64_t m = 1; m <= kernels.max_rows + 1; ++m) {
        for (int64_t n = 1; n <= 3 * kernels.lanes + 1; ++n) {
          Check<T>(m, n, 3, ta, tb, 0, multiply);
        }
      }
      for (int64_t m : {1, 13, 17, 129, 150}) {
        for (int64_t n : {1, 7, 24, 48, 53, 101}) {
          // Depths of one block, just one, and of several.
          for (int64_t k : {1, 5, 256, 257, 512, 1031}) {
            Check<T>(m, n, k, ta, tb, m % 2 == 0 ? 0 : 5, multiply);
          }
        }
      }
    }
  }
}

template <typename T>
void CheckAllKernels() {
  if (HostCpu().sse42) CheckKernels<T>(Sse42TileKernels<T>());
  if (HostCpu().avx2) CheckKernels<T>(Avx2TileKernels<T>());
  if (HostCpu().avx512) CheckKernels<T>(Avx512TileKernels<T>());
}

TEST(DoublesAgainstNaive) { CheckAllKernels<double>(); }
TEST(Integers32AgainstNaive) { CheckAllKernels<uint32_t>(); }
TEST(Integers64AgainstNaive) { CheckAllKernels<uint64_t>(); }

TEST(TheWidestKernelsAreTaken) {
  const auto* const kernels = HostTileKernels<double>();
  EXPECT_EQ(kernels != nullptr, HostCpu().sse42);
  if (HostCpu().avx512) EXPECT_EQ(kernels->lanes, 8);
}

template <typename T>
void CheckThroughDtype(disc_dtype dtype) {
  if (!HostCpu().sse42) return;
  const auto multiply = [&](const Matrix<T>& a, bool ta, const Matrix<T>& b,
                            bool tb, int64_t k, Matrix<T>* c) {
    EXPECT(PlainGemm(dtype, ta, tb, c->rows, c->columns, k, a.data.data(),
                     a.stride, b.data.data(), b.stride, c->data.data(),
                     c->stride)
               .ok());
  };
  Check<T>(33, 65, 17, false, false, 0, multiply);
  Check<T>(33, 65, 17, true, true, 1, multiply);
  Check<T>(5, 7, 0, false, false, 2, multiply);  // zeros
  Check<T>(0, 7, 3, false, false, 0, multiply);
  Check<T>(7, 0, 3, false, false, 4, multiply);
}

TEST(ByDtype) {
  CheckThroughDtype<double>(DISC_F64);
  CheckThroughDtype<uint32_t>(DISC_I32);
  CheckThroughDtype<uint64_t>(DISC_I64);
  float value = 0;
  const absl::Status status = PlainGemm(DISC_BF16, false, false, 1, 1, 1,
                                        &value, 1, &value, 1, &value, 1);
  EXPECT_EQ(std::string(status.message()), "a product of bf16");
}

// A zero does not hide what is not finite, and what fills a tile up does not
// reach the result.
TEST(SpecialValuesSpreadAsInIeee) {
  if (!HostCpu().sse42) return;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  // One row of a and one column of b hold them; the rest is 0 and 1.
  constexpr int64_t kSize = 29;
  std::vector<double> a(kSize * kSize, 0.0);
  std::vector<double> b(kSize * kSize, 1.0);
  std::vector<double> c(kSize * kSize, 7.0);
  for (int64_t l = 0; l < kSize; ++l) a[3 * kSize + l] = l == 5 ? kInf : 0.0;
  b[11 * kSize + 28] = kNaN;
  b[12 * kSize + 2] = -kInf;
  ASSERT(PlainGemm(DISC_F64, false, false, kSize, kSize, kSize, a.data(), kSize,
                   b.data(), kSize, c.data(), kSize)
             .ok());
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t j = 0; j < kSize; ++j) {
      const double value = c[i * kSize + j];
      if (j == 28 || j == 2) {
        EXPECT(std::isnan(value));  // NaN, or 0 times inf
      } else {
        EXPECT_EQ(value, i == 3 ? kInf : 0.0);
      }
    }
  }
}

// Operands that end where readable memory ends.
TEST(NothingIsReadBeyondTheOperands) {
  if (!HostCpu().sse42) return;
  const int64_t page = sysconf(_SC_PAGESIZE);
  char* const memory = static_cast<char*>(
      mmap(nullptr, static_cast<size_t>(4 * page), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT(memory != MAP_FAILED);
  ASSERT(mprotect(memory + page, page, PROT_NONE) == 0);
  ASSERT(mprotect(memory + 3 * page, page, PROT_NONE) == 0);
  constexpr int64_t kDepth = 3;
  for (int64_t m : {1, 5, 17}) {
    for (int64_t n : {1, 5, 8, 23, 24, 25}) {
      double* const a = reinterpret_cast<double*>(memory + page) - m * kDepth;
      double* const b =
          reinterpret_cast<double*>(memory + 3 * page) - kDepth * n;
      std::fill_n(a, m * kDepth, 2.0);
      std::fill_n(b, kDepth * n, 0.5);
      for (int flags = 0; flags < 4; ++flags) {
        const bool ta = (flags & 1) != 0;
        const bool tb = (flags & 2) != 0;
        std::vector<double> c(static_cast<size_t>(m * n));
        ASSERT(PlainGemm(DISC_F64, ta, tb, m, n, kDepth, a, ta ? m : kDepth, b,
                         tb ? kDepth : n, c.data(), n)
                   .ok());
        for (double value : c) EXPECT_EQ(value, 3.0);
      }
    }
  }
  munmap(memory, static_cast<size_t>(4 * page));
}

TEST(ThreadsMultiplyAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int turn = 0; turn < 20; ++turn) {
        CheckThroughDtype<double>(DISC_F64);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tf_disc
