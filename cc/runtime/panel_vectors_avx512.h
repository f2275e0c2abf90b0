// What f32 and bf16 have in common on AVX-512: sums of f32. Included after
// panel_kernel_body.h, by files that say which instructions they may use.
#ifndef TF_DISC_CC_RUNTIME_PANEL_VECTORS_AVX512_H_
#define TF_DISC_CC_RUNTIME_PANEL_VECTORS_AVX512_H_

#include <immintrin.h>

#include <cstdint>

#include "cc/runtime/panel_kernel_body.h"

namespace tf_disc {
namespace {

struct Avx512 {
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 4;
  static constexpr int kSums = 24;

  TF_DISC_PANEL_INLINE Vector Zero() { return _mm512_setzero_ps(); }
  TF_DISC_PANEL_INLINE Mask First(int64_t count) {
    return static_cast<Mask>((1u << count) - 1);
  }
  TF_DISC_PANEL_INLINE Vector Load(const float* p) {
    return _mm512_loadu_ps(p);
  }
  TF_DISC_PANEL_INLINE Vector LoadPart(Mask mask, const float* p) {
    return _mm512_maskz_loadu_ps(mask, p);
  }
  TF_DISC_PANEL_INLINE void Store(float* p, Vector v) {
    _mm512_storeu_ps(p, v);
  }
  TF_DISC_PANEL_INLINE void StorePart(Mask mask, float* p, Vector v) {
    _mm512_mask_storeu_ps(p, mask, v);
  }
};

}  // namespace

// PanelKernels::turn for both.
void Avx512Turn(const uint32_t* from, int64_t stride, int64_t columns,
                int64_t words, uint32_t* to);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_PANEL_VECTORS_AVX512_H_
