// Order in the presence of loops. A value that enters a loop may reach the
// loop's results through its back edge only, which an order of the graph's
// forward edges does not see; and a launch that feeds a loop and takes its
// result would wait for itself.
#ifndef TF_DISC_CC_GRAPPLER_LOOPS_H_
#define TF_DISC_CC_GRAPPLER_LOOPS_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/grappler/deadness.h"
#include "cc/grappler/graph_index.h"

namespace tf_disc {

// One extra node a loop, numbered from graph.size(): every Enter of the loop
// comes before it, every Exit after it.
struct LoopHubs {
  int num_hubs = 0;
  std::vector<std::pair<int, int>> edges;  // From, to.
};
LoopHubs FindLoopHubs(const GraphIndex& graph, const ControlFlow& flow);

// Nodes 0 .. size-1 so that each edge goes forward. InvalidArgument if there is
// no such order.
absl::StatusOr<std::vector<int>> TopologicalOrder(
    int size, const std::vector<std::pair<int, int>>& edges);

// Whether the graph can run to its end: no node waits for itself, be it through
// a loop. InvalidArgument if one does.
absl::Status CheckAcyclic(const GraphIndex& graph);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_LOOPS_H_
