// Memory that products work in.
#ifndef TF_DISC_CC_RUNTIME_THREAD_SCRATCH_H_
#define TF_DISC_CC_RUNTIME_THREAD_SCRATCH_H_

#include <cstdint>

namespace tf_disc {

// At least so many bytes of the calling thread's own, 64-byte aligned, until
// its next call of this; null without memory. Kept until the thread ends.
void* ThreadScratch(int64_t bytes);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_THREAD_SCRATCH_H_
