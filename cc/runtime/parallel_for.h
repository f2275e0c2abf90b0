// Parallel loops on somebody else's thread pool (DESIGN 7).
#ifndef TF_DISC_CC_RUNTIME_PARALLEL_FOR_H_
#define TF_DISC_CC_RUNTIME_PARALLEL_FOR_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "cc/runtime/host.h"

namespace tf_disc {

// Items [begin, end) by participant `slot`; a disc_status.
using RangeFn =
    absl::FunctionRef<int32_t(int64_t begin, int64_t end, int32_t slot)>;

// How a loop is cut. Pure arithmetic, apart so that it can be tested.
struct LoopPlan {
  int participants = 1;     // 1: the caller runs everything in one range
  int64_t range_items = 0;  // a multiple of grain
};
// `max_participants` >= 1. A loop under about 60 us stays on one thread; each
// further participant must have some 30 us to do, each range some 4 us. With
// `awake` somebody is there to help at once, and 10, 5 and 1.5 us are enough.
LoopPlan PlanLoop(int64_t count, int64_t grain, int64_t item_cost_ns,
                  int max_participants, bool awake = false);

// The loops of one run, which come one after the other from one thread. A
// thread of the pool that helped with a loop looks out for the next one for a
// few dozen microseconds before it goes back: waking it anew costs more than
// most loops are apart.
class Crew {
 public:
  // `host` outlives it.
  Crew(Host* host, int max_participants)
      : host_(host),
        max_participants_(max_participants < 1 ? 1 : max_participants) {}
  // Helpers that look out go home; nobody waits for them.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Runs fn over [0, count). Range bounds are multiples of `grain` (the last
  // may be short); a slot is < max_participants and used by one thread at a
  // time. The caller takes part, and waits only for participants that have
  // started: a pool with every thread busy, or none, delays nothing. A
  // scheduled closure that starts after the loop touches neither fn nor the
  // host. The first status that is not DISC_OK is returned, and no new range is
  // issued after it. Participants run in ScopedKernelMxcsr. `name` is for
  // host's traces.
  //
  // A call from inside a range of a loop runs inline in that range's slot.
  int32_t ParallelFor(const char* name, int64_t count, int64_t grain,
                      int64_t item_cost_ns, RangeFn fn);

 private:
  class Shared;

  Host* const host_;
  const int max_participants_;
  std::shared_ptr<Shared> shared_;  // from the first loop that is shared
};

// One loop alone. May be called from many threads at once.
int32_t ParallelFor(Host* host, const char* name, int max_participants,
                    int64_t count, int64_t grain, int64_t item_cost_ns,
                    RangeFn fn);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_PARALLEL_FOR_H_
