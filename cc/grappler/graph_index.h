// A GraphDef by numbers: nodes are indices, edges are lists of indices. Built
// once a pass; the GraphDef must outlive it and stay as it is.
#ifndef TF_DISC_CC_GRAPPLER_GRAPH_INDEX_H_
#define TF_DISC_CC_GRAPPLER_GRAPH_INDEX_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tf_disc {

// One output of one node.
struct TensorRef {
  int node;
  int port;
};

// "^name", "name" or "name:port".
struct InputName {
  absl::string_view node;
  int port;  // -1: a control input
};
InputName ParseInputName(absl::string_view input);

class GraphIndex {
 public:
  // One use of a node's output.
  struct Use {
    int node;
    int operand;
    int port;
  };

  // InvalidArgument if two nodes share a name, an input names no node, or a
  // cycle does not pass through NextIteration.
  static absl::Status Build(const tensorflow::GraphDef& graph,
                            GraphIndex* index);

  int size() const { return static_cast<int>(nodes_.size()); }
  const tensorflow::NodeDef& node(int i) const { return *nodes_[i]; }
  // -1 if there is no such node.
  int Find(absl::string_view name) const;

  const std::vector<TensorRef>& operands(int i) const { return operands_[i]; }
  const std::vector<int>& controls(int i) const { return controls_[i]; }
  const std::vector<Use>& uses(int i) const { return uses_[i]; }
  const std::vector<int>& control_uses(int i) const { return control_uses_[i]; }

  // Null for an op that is not registered (a call of a library function).
  const tensorflow::OpDef* op_def(int i) const { return op_defs_[i]; }

  // Every node after its operands and control inputs, but for the edges from
  // NextIteration to Merge, which are the only back edges.
  const std::vector<int>& order() const { return order_; }
  // Whether the edge from `from` to `to` is such a back edge.
  bool IsBackEdge(int from, int to) const;

 private:
  absl::Status Sort();

  std::vector<const tensorflow::NodeDef*> nodes_;
  absl::flat_hash_map<absl::string_view, int> by_name_;
  std::vector<std::vector<TensorRef>> operands_;
  std::vector<std::vector<int>> controls_;
  std::vector<std::vector<Use>> uses_;
  std::vector<std::vector<int>> control_uses_;
  std::vector<const tensorflow::OpDef*> op_defs_;
  std::vector<int> order_;
};

// Ops by what they do to control flow; reference variants included.
bool IsMergeOp(absl::string_view op);
bool IsSwitchOp(absl::string_view op);  // Switch, RefSwitch, _SwitchN
bool IsEnterOp(absl::string_view op);
bool IsExitOp(absl::string_view op);
bool IsNextIterationOp(absl::string_view op);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_GRAPH_INDEX_H_
