#include "cc/runtime/thread_scratch.h"

#include <cstdlib>
#include <memory>

namespace tf_disc {
namespace {

constexpr int64_t kAlignment = 64;

struct FreeAligned {
  void operator()(void* memory) const { std::free(memory); }
};

struct Scratch {
  std::unique_ptr<void, FreeAligned> memory;
  int64_t bytes = 0;
};

}  // namespace

void* ThreadScratch(int64_t bytes) {
  thread_local Scratch scratch;
  if (scratch.bytes < bytes) {
    const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    scratch.memory.reset();
    scratch.memory.reset(
        std::aligned_alloc(kAlignment, static_cast<size_t>(rounded)));
    scratch.bytes = scratch.memory == nullptr ? 0 : rounded;
  }
  return scratch.memory.get();
}

}  // namespace tf_disc
