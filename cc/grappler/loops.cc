#include "cc/grappler/loops.h"

#include <algorithm>

namespace tf_disc {

LoopHubs FindLoopHubs(const GraphIndex& graph, const ControlFlow& flow) {
  LoopHubs hubs;
  // Frame 0 is no loop; frames that are not understood have no candidates.
  const int num_frames =
      graph.size() == 0
          ? 0
          : *std::max_element(flow.frame.begin(), flow.frame.end());
  hubs.num_hubs = std::max(num_frames, 0);
  const auto hub = [&](int frame) { return graph.size() + frame - 1; };
  for (int i = 0; i < graph.size(); ++i) {
    if (IsEnterOp(graph.node(i).op()) && flow.frame[i] > 0) {
      hubs.edges.emplace_back(i, hub(flow.frame[i]));
    }
    if (!IsExitOp(graph.node(i).op())) continue;
    for (const TensorRef& operand : graph.operands(i)) {
      const int frame = flow.frame[operand.node];
      if (frame > 0) hubs.edges.emplace_back(hub(frame), i);
    }
  }
  return hubs;
}

absl::StatusOr<std::vector<int>> TopologicalOrder(
    int size, const std::vector<std::pair<int, int>>& edges) {
  std::vector<int> waiting(size, 0);
  std::vector<std::vector<int>> next(size);
  for (const auto& [from, to] : edges) {
    next[from].push_back(to);
    ++waiting[to];
  }
  std::vector<int> order;
  order.reserve(size);
  for (int i = 0; i < size; ++i) {
    if (waiting[i] == 0) order.push_back(i);
  }
  for (size_t k = 0; k < order.size(); ++k) {
    for (int to : next[order[k]]) {
      if (--waiting[to] == 0) order.push_back(to);
    }
  }
  if (static_cast<int>(order.size()) != size) {
    return absl::InvalidArgumentError(
        "a loop's input waits for one of its outputs");
  }
  return order;
}

absl::Status CheckAcyclic(const GraphIndex& graph) {
  const LoopHubs hubs = FindLoopHubs(graph, AnalyzeControlFlow(graph));
  std::vector<std::pair<int, int>> edges = hubs.edges;
  for (int i = 0; i < graph.size(); ++i) {
    for (const TensorRef& operand : graph.operands(i)) {
      if (!graph.IsBackEdge(operand.node, i)) {
        edges.emplace_back(operand.node, i);
      }
    }
    for (int control : graph.controls(i)) edges.emplace_back(control, i);
  }
  return TopologicalOrder(graph.size() + hubs.num_hubs, edges).status();
}

}  // namespace tf_disc
