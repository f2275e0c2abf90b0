#include <immintrin.h>

#define TF_DISC_PANEL_TARGET __attribute__((target("avx2,fma")))
#include "cc/runtime/panel_kernel_body.h"

namespace tf_disc {
namespace {

struct Avx2F32 {
  using Element = float;
  using Vector = __m256;
  using Factors = __m256;
  using Mask = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  static constexpr int kSums = 12;
  static constexpr int kPack = 1;

  TF_DISC_PANEL_INLINE Vector Zero() { return _mm256_setzero_ps(); }
  TF_DISC_PANEL_INLINE Mask First(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  TF_DISC_PANEL_INLINE Vector Load(const float* p) {
    return _mm256_loadu_ps(p);
  }
  TF_DISC_PANEL_INLINE Vector LoadPart(Mask mask, const float* p) {
    return _mm256_maskload_ps(p, mask);
  }
  TF_DISC_PANEL_INLINE void Store(float* p, Vector v) {
    _mm256_storeu_ps(p, v);
  }
  TF_DISC_PANEL_INLINE void StorePart(Mask mask, float* p, Vector v) {
    _mm256_maskstore_ps(p, mask, v);
  }
  TF_DISC_PANEL_INLINE Factors LoadFactors(const float* p) { return Load(p); }
  TF_DISC_PANEL_INLINE Factors LoadFactorsPart(Mask mask, const float* p) {
    return LoadPart(mask, p);
  }
  TF_DISC_PANEL_INLINE Factors Spread(const float* a) {
    return _mm256_broadcast_ss(a);
  }
  TF_DISC_PANEL_INLINE Factors SpreadOne(const float* a) { return Spread(a); }
  TF_DISC_PANEL_INLINE Vector MultiplyAdd(Vector sum, Factors a, Factors b) {
    return _mm256_fmadd_ps(a, b, sum);
  }
};

void Turn(const uint32_t* from, int64_t stride, int64_t columns, int64_t words,
          uint32_t* to) {
  // By blocks, so that the lines of both sides stay in L1.
  for (int64_t first = 0; first < words; first += 16) {
    const int64_t end = first + 16 < words ? first + 16 : words;
    for (int64_t column = 0; column < kPanelColumns; ++column) {
      for (int64_t word = first; word < end; ++word) {
        to[word * kPanelColumns + column] =
            column < columns ? from[column * stride + word] : 0;
      }
    }
  }
}

}  // namespace

const PanelKernels<float>& Avx2PanelKernels() {
  static const PanelKernels<float> table = [] {
    PanelKernels<float> made = MakePanelTable<Avx2F32>();
    made.turn = &Turn;
    return made;
  }();
  return table;
}

}  // namespace tf_disc
