// The pass without Grappler around it: graph bytes in, graph bytes out.
#ifndef TF_DISC_CC_GRAPPLER_OFFLINE_H_
#define TF_DISC_CC_GRAPPLER_OFFLINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tf_disc {

struct OfflineRequest {
  std::string graph;  // A serialised GraphDef.
  std::vector<std::string> fetches;
  std::vector<std::string> feeds;
  std::vector<std::string> keep_ops;
  std::string id = "offline";
  bool allow_non_differentiable_rewrites = true;
  bool remap = true;
};

// Runs the pass once, under the op table and the options of the process.
// Returns a serialised GraphDef; InvalidArgument if `graph` is none. A pass
// that fails returns the graph as it was, as it does under Grappler.
absl::StatusOr<std::string> OptimizeGraph(const OfflineRequest& request);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_OFFLINE_H_
