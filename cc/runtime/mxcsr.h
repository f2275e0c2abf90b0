// The floating-point mode that kernels run in.
#ifndef TF_DISC_CC_RUNTIME_MXCSR_H_
#define TF_DISC_CC_RUNTIME_MXCSR_H_

#include <xmmintrin.h>

namespace tf_disc {

// Sets, for its lifetime, what TensorFlow's pool threads set for kernels:
// denormal inputs are zero, denormal results are flushed, round to nearest, no
// traps (DESIGN 7). A caller may be a thread that TensorFlow did not set up.
class ScopedKernelMxcsr {
 public:
  // TensorFlow's threads are in this mode but for the flags of what happened,
  // and writing the register stalls: it is written where it differs.
  ScopedKernelMxcsr() : old_(_mm_getcsr()) {
    if (!IsKernelMode()) _mm_setcsr(kKernelMode);
  }
  ~ScopedKernelMxcsr() {
    if (!IsKernelMode()) _mm_setcsr(old_);
  }
  ScopedKernelMxcsr(const ScopedKernelMxcsr&) = delete;
  ScopedKernelMxcsr& operator=(const ScopedKernelMxcsr&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040,
                            kAllMasked = 0x1f80;
  static constexpr unsigned kKernelMode =
      kFlushToZero | kDenormalsAreZero | kAllMasked;
  static constexpr unsigned kHappened = 0x3f;

  bool IsKernelMode() const { return (old_ & ~kHappened) == kKernelMode; }

  const unsigned old_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_MXCSR_H_
