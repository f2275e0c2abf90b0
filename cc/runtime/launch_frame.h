// Runs one executable once: plan, allocate, resolve weights, run.
#ifndef TF_DISC_CC_RUNTIME_LAUNCH_FRAME_H_
#define TF_DISC_CC_RUNTIME_LAUNCH_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "cc/abi/kernel_abi.h"
#include "cc/runtime/executable.h"
#include "cc/runtime/host.h"
#include "cc/runtime/weight_slots.h"

namespace tf_disc {

// One input of a launch. Dense and row-major; `data` and `dims` stay valid and
// unchanged until RunExecutable returns.
struct LaunchInput {
  const void* data = nullptr;  // may be null if a dim is 0
  absl::Span<const int64_t> dims;
  disc_dtype dtype = DISC_F32;
  // A weight by DESIGN 6's identity rule whose buffer owns its memory: it may
  // be packed, cached and held. False for anything else, also for a weight
  // whose buffer does not own its memory; it is then multiplied as it is.
  bool is_cacheable_weight = false;
  // A Const: packed at the first launch instead of the third.
  bool is_constant = false;
};

enum class LaunchOutcome {
  kDone,         // outputs are written
  kGuardFailed,  // `failed_guard`; try another variant or fall back
  kFailed,       // `reason`; fall back
};

struct LaunchResult {
  LaunchOutcome outcome = LaunchOutcome::kDone;
  // Index into the manifest's guards; -1 where none failed or it is unknown.
  int failed_guard = -1;
  // For people: the guard's text, or why memory or a library failed. No node
  // or cluster name: the caller adds those.
  std::string reason;
};

// Runs `executable` on the calling thread, with help from `host`'s pool, and
// returns when everything has ended. Never blocks on a thread that has not
// started, so it may be called from a thread of that very pool. Sets the
// denormal mode of TF's kernels (DESIGN 7) for the run and restores the old.
//
// `slots` remembers which pointers earlier launches had as weights: one a
// DiscLaunch node and executable, made by `executable.NewWeightSlots()`, shared
// by concurrent launches; null means that no weight is cached.
//
// A plan's guard fails before anything is allocated. kGuardFailed can also come
// from the run (an index out of range): outputs then hold nothing of use.
// Thread-safe for distinct hosts.
LaunchResult RunExecutable(const Executable& executable,
                           absl::Span<const LaunchInput> inputs,
                           WeightSlots* slots, Host* host);

// Whether RunExecutable would get past the plan's guards, without running:
// kDone, or what it would give. Allocates and writes nothing.
LaunchResult CheckGuards(const Executable& executable,
                         absl::Span<const LaunchInput> inputs);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_LAUNCH_FRAME_H_
