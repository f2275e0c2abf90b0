// AVX512-BF16: sums of f32 of products of bf16.
#include <cstring>

#define TF_DISC_PANEL_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")))
#include "cc/runtime/panel_kernel_body.h"
#include "cc/runtime/panel_vectors_avx512.h"

// GCC 12's own intrinsics of AVX-512 begin with a vector of no value.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace tf_disc {
namespace {

struct Avx512Bf16 : Avx512 {
  using Element = uint16_t;
  using Factors = __m512bh;
  static constexpr int kPack = 2;

  TF_DISC_PANEL_INLINE Factors LoadFactors(const uint16_t* p) {
    return (__m512bh)_mm512_loadu_si512(p);
  }
  TF_DISC_PANEL_INLINE Factors LoadFactorsPart(Mask mask, const uint16_t* p) {
    return (__m512bh)_mm512_maskz_loadu_epi32(mask, p);
  }
  TF_DISC_PANEL_INLINE Factors Spread(const uint16_t* a) {
    int pair;
    std::memcpy(&pair, a, sizeof(pair));
    return (__m512bh)_mm512_set1_epi32(pair);
  }
  TF_DISC_PANEL_INLINE Factors SpreadOne(const uint16_t* a) {
    return (__m512bh)_mm512_set1_epi32(*a);
  }
  TF_DISC_PANEL_INLINE Vector MultiplyAdd(Vector sum, Factors a, Factors b) {
    return _mm512_dpbf16_ps(sum, a, b);
  }
};

TF_DISC_PANEL_TARGET void Pair(const uint16_t* first, const uint16_t* second,
                               int64_t columns, uint32_t* to) {
  for (int64_t column = 0; column < columns; column += 16) {
    const int64_t left = columns - column;
    const __mmask16 mask = Avx512::First(left < 16 ? left : 16);
    const __m512i low =
        _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, first + column));
    const __m512i high =
        _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, second + column));
    _mm512_mask_storeu_epi32(to + column, mask,
                             _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

TF_DISC_PANEL_TARGET void PairRounded(const float* first, const float* second,
                                      int64_t columns, uint32_t* to) {
  for (int64_t column = 0; column < columns; column += 16) {
    const int64_t left = columns - column;
    const __mmask16 mask = Avx512::First(left < 16 ? left : 16);
    const auto rounded = [mask](const float* from) TF_DISC_PANEL_TARGET {
      const __m512 values = _mm512_maskz_loadu_ps(mask, from);
      return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(values));
    };
    const __m512i low = rounded(first + column);
    const __m512i high = rounded(second + column);
    _mm512_mask_storeu_epi32(to + column, mask,
                             _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

}  // namespace

const PanelKernels<uint16_t>& Avx512Bf16PanelKernels() {
  static const PanelKernels<uint16_t> table = [] {
    PanelKernels<uint16_t> made = MakePanelTable<Avx512Bf16>();
    made.turn = &Avx512Turn;
    made.pair = &Pair;
    made.pair_rounded = &PairRounded;
    return made;
  }();
  return table;
}

}  // namespace tf_disc
