#include "cc/ops/pool_allocator.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "cc/runtime/block_pool.h"

namespace tf_disc {
namespace {

class PoolAllocatorImpl : public tensorflow::Allocator {
 public:
  std::string Name() override { return "tf_disc_pool"; }

  void* AllocateRaw(size_t alignment, size_t num_bytes) override {
    if (alignment > BlockPool::kAlignment ||
        num_bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
      return nullptr;
    }
    return BlockPool::Global().Allocate(static_cast<int64_t>(num_bytes));
  }

  void DeallocateRaw(void* ptr) override { BlockPool::Global().Free(ptr); }

  tensorflow::AllocatorMemoryType GetMemoryType() const override {
    return tensorflow::AllocatorMemoryType::kHostPageable;
  }
};

}  // namespace

tensorflow::Allocator* PoolAllocator() {
  static auto* allocator = new PoolAllocatorImpl;
  return allocator;
}

}  // namespace tf_disc
