// Turns a cluster into a function and a DiscLaunch node that runs it.
#ifndef TF_DISC_CC_GRAPPLER_OUTLINE_H_
#define TF_DISC_CC_GRAPPLER_OUTLINE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "cc/grappler/candidates.h"
#include "cc/grappler/graph_index.h"
#include "cc/grappler/growth.h"
#include "cc/grappler/weights.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace tf_disc {

// What outlining asks about the graph around the cluster.
struct OutlineContext {
  const GraphIndex& graph;
  const Candidates& candidates;
  const WeightFinder& weights;
  // All outputs of these nodes must exist after the rewrite.
  const absl::flat_hash_set<std::string>& preserved;
  // Unknown rank where nothing is known.
  std::function<tensorflow::TensorShapeProto(TensorRef)> shape_of;
  // Whether the node's products keep f32 inputs where others are rounded.
  std::function<bool(const tensorflow::NodeDef&)> keeps_f32;
  std::string options;  // For the node's attribute.
  int producer = 0;     // GraphDef version of the graph.
};

struct OutlinedCluster {
  // Runs as the cluster did. Named by its content.
  tensorflow::FunctionDef function;
  // The same after TensorFlow's own fusions, for calls that have no kernel;
  // without a name if it would not differ. The launch names it in its attribute
  // `_disc_fallback`. It must be instantiated as a multi-device function: some
  // fused ops (_FusedMatMul with a GELU) have a oneDNN kernel only, which
  // TensorFlow puts in on that way alone; on the other they are Unimplemented.
  tensorflow::FunctionDef fallback;
  // DiscLaunch, still without name, device and control inputs.
  tensorflow::NodeDef launch;
  // Which tensor each output of the launch is.
  std::vector<TensorRef> outputs;
  // Copied Consts.
  std::vector<int> consts;
};

// An error says what is wrong with the cluster, which then stays with
// TensorFlow. `*remap_budget`: how many nodes the remapper may still be run on
// to make `fallback`; lowered by what was used.
absl::StatusOr<OutlinedCluster> OutlineCluster(const OutlineContext& context,
                                               const Cluster& cluster,
                                               int* remap_budget);

// Whether `name` is the name of an outlined function or of its fallback.
bool IsOutlinedFunctionName(absl::string_view name);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_OUTLINE_H_
