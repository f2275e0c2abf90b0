#include "cc/grappler/graph_index.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"

namespace tf_disc {

InputName ParseInputName(absl::string_view input) {
  if (!input.empty() && input[0] == '^') return {input.substr(1), -1};
  const size_t colon = input.rfind(':');
  int port = 0;
  if (colon != absl::string_view::npos &&
      absl::SimpleAtoi(input.substr(colon + 1), &port)) {
    return {input.substr(0, colon), port};
  }
  return {input, 0};
}

bool IsMergeOp(absl::string_view op) {
  return op == "Merge" || op == "RefMerge" || op == "_XlaMerge";
}
bool IsSwitchOp(absl::string_view op) {
  return op == "Switch" || op == "RefSwitch" || op == "_SwitchN";
}
bool IsEnterOp(absl::string_view op) {
  return op == "Enter" || op == "RefEnter";
}
bool IsExitOp(absl::string_view op) { return op == "Exit" || op == "RefExit"; }
bool IsNextIterationOp(absl::string_view op) {
  return op == "NextIteration" || op == "RefNextIteration";
}

absl::Status GraphIndex::Build(const tensorflow::GraphDef& graph,
                               GraphIndex* index) {
  *index = GraphIndex();
  const int size = graph.node_size();
  index->nodes_.reserve(size);
  index->op_defs_.reserve(size);
  index->by_name_.reserve(size);
  absl::flat_hash_map<absl::string_view, const tensorflow::OpDef*> op_defs;
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (!index->by_name_.emplace(node.name(), index->size()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two nodes are named \"", node.name(), "\""));
    }
    index->nodes_.push_back(&node);
    auto [found, is_new] = op_defs.emplace(node.op(), nullptr);
    if (is_new) {
      const tensorflow::OpRegistrationData* data = nullptr;
      const auto* registry = tensorflow::OpRegistry::Global();
      if (registry->LookUp(node.op(), &data).ok()) {
        found->second = &data->op_def;
      }
    }
    index->op_defs_.push_back(found->second);
  }
  index->operands_.resize(size);
  index->controls_.resize(size);
  index->uses_.resize(size);
  index->control_uses_.resize(size);
  for (int i = 0; i < size; ++i) {
    for (const std::string& text : index->nodes_[i]->input()) {
      const InputName input = ParseInputName(text);
      const int from = index->Find(input.node);
      if (from < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("node \"", index->nodes_[i]->name(), "\" has input \"",
                         text, "\", which names no node of the graph"));
      }
      if (input.port < 0) {
        index->controls_[i].push_back(from);
        index->control_uses_[from].push_back(i);
        continue;
      }
      const int operand = static_cast<int>(index->operands_[i].size());
      index->operands_[i].push_back({from, input.port});
      index->uses_[from].push_back({i, operand, input.port});
    }
  }
  return index->Sort();
}

int GraphIndex::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

bool GraphIndex::IsBackEdge(int from, int to) const {
  return IsNextIterationOp(nodes_[from]->op()) && IsMergeOp(nodes_[to]->op());
}

absl::Status GraphIndex::Sort() {
  std::vector<int> waiting(size(), 0);
  for (int i = 0; i < size(); ++i) {
    for (const TensorRef& operand : operands_[i]) {
      if (!IsBackEdge(operand.node, i)) ++waiting[i];
    }
    waiting[i] += static_cast<int>(controls_[i].size());
  }
  order_.reserve(size());
  for (int i = 0; i < size(); ++i) {
    if (waiting[i] == 0) order_.push_back(i);
  }
  for (size_t next = 0; next < order_.size(); ++next) {
    const int from = order_[next];
    for (const Use& use : uses_[from]) {
      if (IsBackEdge(from, use.node)) continue;
      if (--waiting[use.node] == 0) order_.push_back(use.node);
    }
    for (int to : control_uses_[from]) {
      if (--waiting[to] == 0) order_.push_back(to);
    }
  }
  if (static_cast<int>(order_.size()) == size()) return absl::OkStatus();
  for (int i = 0; i < size(); ++i) {
    if (waiting[i] == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("node \"", nodes_[i]->name(), "\" is in or behind a ",
                     "cycle that does not pass through NextIteration"));
  }
  return absl::InternalError("the graph has a cycle");
}

}  // namespace tf_disc
