#include "cc/grappler/weights.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace tf_disc {
namespace {

bool IsInplaceOp(absl::string_view op) {
  return absl::StartsWith(op, "Inplace");
}

bool HandsOnItsInput(absl::string_view op) {
  return op == "Identity" || op == "Enter" || op == "Switch";
}

}  // namespace

WeightFinder::WeightFinder(const GraphIndex& graph,
                           const tensorflow::FunctionDefLibrary& library,
                           const absl::flat_hash_set<std::string>& fed)
    : graph_(graph), fed_(fed) {
  for (int i = 0; i < graph.size(); ++i) {
    has_inplace_ops_ |= IsInplaceOp(graph.node(i).op());
  }
  for (const tensorflow::FunctionDef& function : library.function()) {
    for (const tensorflow::NodeDef& node : function.node_def()) {
      has_inplace_ops_ |= IsInplaceOp(node.op());
    }
  }
}

bool WeightFinder::IsConstant(TensorRef tensor) const {
  const int source = Source(tensor);
  return source >= 0 && graph_.node(source).op() == "Const";
}

int WeightFinder::Source(TensorRef tensor) const {
  if (has_inplace_ops_) return -1;
  while (true) {
    const tensorflow::NodeDef& node = graph_.node(tensor.node);
    if (fed_.contains(node.name())) return -1;
    if (node.op() == "Const" || node.op() == "ReadVariableOp") {
      return tensor.node;
    }
    if (!HandsOnItsInput(node.op()) || graph_.operands(tensor.node).empty()) {
      return -1;
    }
    tensor = graph_.operands(tensor.node)[0];
  }
}

}  // namespace tf_disc
