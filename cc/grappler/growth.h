// Grows clusters: disjoint sets of candidates, each of which can be replaced by
// one node without making a cycle.
#ifndef TF_DISC_CC_GRAPPLER_GROWTH_H_
#define TF_DISC_CC_GRAPPLER_GROWTH_H_

#include <functional>
#include <vector>

#include "cc/grappler/candidates.h"
#include "cc/grappler/deadness.h"
#include "cc/grappler/graph_index.h"

namespace tf_disc {

struct GrowthPolicy {
  // A cluster without a heavy op needs this many that do or move something
  // where its data are small, and one less where they are not: a launch costs
  // what two of TensorFlow's small ops do, and one pass over memory less.
  int min_cluster_size = 3;
  // Whether the node reads or writes a tensor that is large or may be.
  std::function<bool(int node)> has_large_data;
  // Whether the node's output is a small integer tensor: counting it as work
  // would make clusters of mere shape arithmetic.
  std::function<bool(int node)> is_shape_arithmetic;
};

struct Cluster {
  std::vector<int> members;  // In topological order.
};

// Sets `(*reason)[node]` for candidates that are left over.
std::vector<Cluster> GrowClusters(const GraphIndex& graph,
                                  const Candidates& candidates,
                                  const ControlFlow& flow,
                                  const GrowthPolicy& policy,
                                  std::vector<std::string>* reason);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_GROWTH_H_
