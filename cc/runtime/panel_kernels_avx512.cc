#define TF_DISC_PANEL_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#include "cc/runtime/panel_kernel_body.h"
#include "cc/runtime/panel_vectors_avx512.h"

// GCC 12's own intrinsics of AVX-512 begin with a vector of no value.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace tf_disc {
namespace {

struct Avx512F32 : Avx512 {
  using Element = float;
  using Factors = __m512;
  static constexpr int kPack = 1;

  TF_DISC_PANEL_INLINE Factors LoadFactors(const float* p) { return Load(p); }
  TF_DISC_PANEL_INLINE Factors LoadFactorsPart(Mask mask, const float* p) {
    return LoadPart(mask, p);
  }
  TF_DISC_PANEL_INLINE Factors Spread(const float* a) {
    return _mm512_set1_ps(*a);
  }
  TF_DISC_PANEL_INLINE Factors SpreadOne(const float* a) { return Spread(a); }
  TF_DISC_PANEL_INLINE Vector MultiplyAdd(Vector sum, Factors a, Factors b) {
    return _mm512_fmadd_ps(a, b, sum);
  }
};

// 16 rows of 16 words, in registers: pairs of words, of pairs, of quarters.
TF_DISC_PANEL_INLINE void Turn16(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      r[4 * i + 2 * h] = _mm512_unpacklo_epi64(t[4 * i + h], t[4 * i + 2 + h]);
      r[4 * i + 2 * h + 1] =
          _mm512_unpackhi_epi64(t[4 * i + h], t[4 * i + 2 + h]);
    }
  }
  // r[4 i + q] has, in quarter p, words 4 p + q of rows 4 i to 4 i + 3.
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    t[q] = _mm512_shuffle_i32x4(r[q], r[4 + q], 0x88);
    t[4 + q] = _mm512_shuffle_i32x4(r[q], r[4 + q], 0xdd);
    t[8 + q] = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0x88);
    t[12 + q] = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0xdd);
  }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    r[q] = _mm512_shuffle_i32x4(t[q], t[8 + q], 0x88);
    r[8 + q] = _mm512_shuffle_i32x4(t[q], t[8 + q], 0xdd);
    r[4 + q] = _mm512_shuffle_i32x4(t[4 + q], t[12 + q], 0x88);
    r[12 + q] = _mm512_shuffle_i32x4(t[4 + q], t[12 + q], 0xdd);
  }
}

}  // namespace

TF_DISC_PANEL_TARGET void Avx512Turn(const uint32_t* from, int64_t stride,
                                     int64_t columns, int64_t words,
                                     uint32_t* to) {
  for (int64_t column = 0; column < kPanelColumns; column += 16) {
    const int64_t height = columns - column < 16 ? columns - column : 16;
    for (int64_t word = 0; word < words; word += 16) {
      const int64_t width = words - word < 16 ? words - word : 16;
      const __mmask16 mask = Avx512::First(width);
      __m512i block[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        block[i] = i < height ? _mm512_maskz_loadu_epi32(
                                    mask, from + (column + i) * stride + word)
                              : _mm512_setzero_si512();
      }
      Turn16(block);
      uint32_t* const row = to + word * kPanelColumns + column;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        if (i < width) _mm512_storeu_si512(row + i * kPanelColumns, block[i]);
      }
    }
  }
}

const PanelKernels<float>& Avx512PanelKernels() {
  static const PanelKernels<float> table = [] {
    PanelKernels<float> made = MakePanelTable<Avx512F32>();
    made.turn = &Avx512Turn;
    return made;
  }();
  return table;
}

}  // namespace tf_disc
