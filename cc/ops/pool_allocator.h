// The block pool as TensorFlow's tensors see it.
#ifndef TF_DISC_CC_OPS_POOL_ALLOCATOR_H_
#define TF_DISC_CC_OPS_POOL_ALLOCATOR_H_

#include "tensorflow/core/framework/allocator.h"

namespace tf_disc {

// Allocates from BlockPool::Global(). Tensors made with it own their memory.
// Never destroyed. Thread-safe.
tensorflow::Allocator* PoolAllocator();

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_POOL_ALLOCATOR_H_
