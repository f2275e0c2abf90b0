// Puts launches into a graph in the place of clusters.
#ifndef TF_DISC_CC_GRAPPLER_REWRITE_H_
#define TF_DISC_CC_GRAPPLER_REWRITE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "cc/grappler/graph_index.h"
#include "cc/grappler/growth.h"
#include "cc/grappler/outline.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tf_disc {

struct PlacedCluster {
  Cluster cluster;
  OutlinedCluster outlined;
  std::string launch_name;  // Set by the rewrite.
};

// The graph with one launch for each cluster. Members go, but a preserved one
// is replaced by an Identity (IdentityN) of its name that hands on the launch's
// outputs. Copied Consts that nothing uses any more go too. Launches carry the
// control inputs of their members and of their copied Consts, and what waited
// for a member waits for the launch. The library gains the outlined functions.
tensorflow::GraphDef RewriteGraph(
    const tensorflow::GraphDef& graph, const GraphIndex& index,
    const absl::flat_hash_set<std::string>& preserved,
    std::vector<PlacedCluster>* clusters);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_REWRITE_H_
