// What the runtime needs from whoever runs an executable.
//
// DiscLaunch implements it on TensorFlow's threads and the block pool, tests on
// a few std::threads and malloc. The runtime itself owns neither.
#ifndef TF_DISC_CC_RUNTIME_HOST_H_
#define TF_DISC_CC_RUNTIME_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cc/abi/kernel_abi.h"

namespace tf_disc {

// A reference to a weight's buffer, kept by the weight cache. While it lives
// the buffer is neither freed nor written in place, so that an equal pointer
// proves equal content (DESIGN 6). Made from a TF Tensor by DiscLaunch.
class BufferHold {
 public:
  virtual ~BufferHold() = default;
  // True if this hold is the only reference left: nobody can ask for the
  // buffer again, so that the cache lets it go. Called from any thread.
  virtual bool IsOnlyHolder() const = 0;
};

// One run's surroundings. Lives at least as long as RunExecutable.
class Host {
 public:
  virtual ~Host() = default;

  // Threads that closures of Schedule run on, >= 0. The calling thread takes
  // part in each loop, and at most NumThreads() participants run at once.
  virtual int NumThreads() const = 0;

  // Runs `fn` on a thread of the pool, now or much later (even after the run:
  // such a closure finds nothing to do and touches nothing but its own state).
  // Called from the thread that called RunExecutable.
  virtual void Schedule(std::function<void()> fn) = 0;

  // Memory of output `index`, 64-byte aligned, dense row-major, uninitialised.
  // Null is right for an output without elements. Called once an output, in
  // order, after every guard of the plan held. If the run then fails, the host
  // drops what it allocated here.
  virtual absl::StatusOr<void*> AllocateOutput(
      int index, disc_dtype dtype, absl::Span<const int64_t> dims) = 0;

  // `bytes` > 0 of 64-byte aligned, uninitialised memory that stays valid until
  // RunExecutable returns. Called at most twice a run (arena, scratch).
  virtual absl::StatusOr<void*> AllocateTemporary(int64_t bytes) = 0;

  // A hold on the buffer of input `index`; null if it cannot be held, and then
  // the weight is not cached. Called on the thread that called RunExecutable,
  // only for inputs marked as cacheable weights, and seldom (when packing).
  virtual std::unique_ptr<BufferHold> HoldInput(int index) = 0;

  // Traces. If IsTracing(), each participant of a task brackets its part
  // with TaskBegin(name) -> token and TaskEnd(token), on its own thread.
  virtual bool IsTracing() const { return false; }
  virtual int64_t TaskBegin(const char* /*name*/) { return 0; }
  virtual void TaskEnd(int64_t /*token*/) {}
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_HOST_H_
