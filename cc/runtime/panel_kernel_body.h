// The code of panel_kernels.h, over the vectors of one instruction set.
// Included by the file of each, which defines TF_DISC_PANEL_TARGET, the
// function attribute: only these functions are compiled for it (see
// gemm_kernel_body.h). `Isa` has
//
//   Element: float or uint16_t.
//   Vector, Factors, Mask: kLanes sums; what is multiplied; which lanes count.
//   kLanes, kVectors: columns of a vector, vectors of a call.
//   kSums: vectors of sums that there are registers for.
//   kPack: numbers of k that one step multiplies.
//   Zero(), First(count), Load(p), LoadPart(mask, p), Store(p, v),
//   StorePart(mask, p, v): sums.
//   LoadFactors(p), LoadFactorsPart(mask, p): of b.
//   Spread(a): the next kPack numbers of a row of a, in all lanes.
//   SpreadOne(a): the last number of an odd k.
//   MultiplyAdd(sum, a, b).
#ifndef TF_DISC_CC_RUNTIME_PANEL_KERNEL_BODY_H_
#define TF_DISC_CC_RUNTIME_PANEL_KERNEL_BODY_H_

#include <cstdint>
#include <utility>

#include "cc/runtime/panel_kernels.h"

#define TF_DISC_PANEL_INLINE \
  TF_DISC_PANEL_TARGET __attribute__((always_inline)) static inline

#if !defined(TF_DISC_PANEL_TARGET)
#error "panel_kernel_body.h is included by the file of an instruction set"
#endif

namespace tf_disc {
namespace {

// One step over k: a row of b by a column of a. The sums stay in registers:
// loops over rows and vectors are unrolled. kOdd: only the first number of a
// pair is there.
template <typename Isa, int kRows, int kVectors, bool kOdd>
TF_DISC_PANEL_INLINE void Step(const typename Isa::Element* a, int64_t a_row,
                               const typename Isa::Element* b,
                               typename Isa::Mask mask,
                               typename Isa::Vector (&sums)[kRows][kVectors]) {
  typename Isa::Factors columns[kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    const typename Isa::Element* const from = b + j * Isa::kLanes * Isa::kPack;
    columns[j] = j == kVectors - 1 ? Isa::LoadFactorsPart(mask, from)
                                   : Isa::LoadFactors(from);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const typename Isa::Factors row =
        kOdd ? Isa::SpreadOne(a + i * a_row) : Isa::Spread(a + i * a_row);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = Isa::MultiplyAdd(sums[i][j], row, columns[j]);
    }
  }
}

// kAhead: `ahead` is asked for, two lines a step, into L2: L1 is full of what
// is multiplied now.
template <typename Isa, int kRows, int kVectors, bool kAhead>
TF_DISC_PANEL_INLINE void Multiply(int64_t k, const typename Isa::Element* a,
                                   int64_t a_row, int64_t a_k,
                                   const typename Isa::Element* b, int64_t b_k,
                                   float* c, int64_t ldc, int64_t last,
                                   bool add,
                                   const typename Isa::Element* ahead) {
  constexpr int kLast = kVectors - 1;
  const typename Isa::Mask mask = Isa::First(last);
  typename Isa::Vector sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* const from = c + i * ldc + j * Isa::kLanes;
      sums[i][j] = !add         ? Isa::Zero()
                   : j == kLast ? Isa::LoadPart(mask, from)
                                : Isa::Load(from);
    }
  }
  for (int64_t left = k / Isa::kPack; left > 0; --left) {
    if (kAhead) {
      constexpr int64_t kLine = 64 / sizeof(typename Isa::Element);
      __builtin_prefetch(ahead, 0, 2);
      __builtin_prefetch(ahead + kLine, 0, 2);
      ahead += b_k;
    }
    Step<Isa, kRows, kVectors, false>(a, a_row, b, mask, sums);
    a += a_k * Isa::kPack;
    b += b_k;
  }
  if (k % Isa::kPack != 0) {
    Step<Isa, kRows, kVectors, true>(a, a_row, b, mask, sums);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* const to = c + i * ldc + j * Isa::kLanes;
      if (j == kLast) {
        Isa::StorePart(mask, to, sums[i][j]);
      } else {
        Isa::Store(to, sums[i][j]);
      }
    }
  }
}

template <typename Isa, int kRows, int kVectors>
TF_DISC_PANEL_TARGET void Panel(int64_t k, const typename Isa::Element* a,
                                int64_t a_row, int64_t a_k,
                                const typename Isa::Element* b, int64_t b_k,
                                float* c, int64_t ldc, int64_t last, bool add) {
  Multiply<Isa, kRows, kVectors, false>(k, a, a_row, a_k, b, b_k, c, ldc, last,
                                        add, nullptr);
}

template <typename Isa, int kRows>
TF_DISC_PANEL_TARGET void PanelAhead(int64_t k, const typename Isa::Element* a,
                                     int64_t a_row,
                                     const typename Isa::Element* b, float* c,
                                     int64_t ldc, bool add,
                                     const typename Isa::Element* ahead) {
  Multiply<Isa, kRows, kPanelVectors, true>(k, a, a_row, 1, b,
                                            kPanelColumns * Isa::kPack, c, ldc,
                                            Isa::kLanes, add, ahead);
}

template <typename Isa, int kVectors, int... kRowsLessOne>
void FillColumn(PanelKernels<typename Isa::Element>* table,
                std::integer_sequence<int, kRowsLessOne...>) {
  table->rows[kVectors - 1] = sizeof...(kRowsLessOne);
  ((table->kernels[kRowsLessOne][kVectors - 1] =
        &Panel<Isa, kRowsLessOne + 1, kVectors>),
   ...);
  if constexpr (kVectors == kPanelVectors) {
    ((table->ahead[kRowsLessOne] = &PanelAhead<Isa, kRowsLessOne + 1>), ...);
  }
}

template <typename Isa, int... kVectorsLessOne>
PanelKernels<typename Isa::Element> MakePanelTable(
    std::integer_sequence<int, kVectorsLessOne...>) {
  PanelKernels<typename Isa::Element> table = {};
  table.lanes = Isa::kLanes;
  table.vectors = Isa::kVectors;
  (FillColumn<Isa, kVectorsLessOne + 1>(
       &table,
       std::make_integer_sequence<int, Isa::kSums / (kVectorsLessOne + 1) <
                                               kPanelRows
                                           ? Isa::kSums / (kVectorsLessOne + 1)
                                           : kPanelRows>()),
   ...);
  return table;
}

template <typename Isa>
PanelKernels<typename Isa::Element> MakePanelTable() {
  return MakePanelTable<Isa>(std::make_integer_sequence<int, Isa::kVectors>());
}

}  // namespace
}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_PANEL_KERNEL_BODY_H_
