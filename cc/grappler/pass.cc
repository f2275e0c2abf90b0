#include "cc/grappler/pass.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cc/base/options.h"
#include "cc/grappler/candidates.h"
#include "cc/grappler/deadness.h"
#include "cc/grappler/graph_dump.h"
#include "cc/grappler/graph_index.h"
#include "cc/grappler/growth.h"
#include "cc/grappler/loops.h"
#include "cc/grappler/op_table.h"
#include "cc/grappler/outline.h"
#include "cc/grappler/remap.h"
#include "cc/grappler/rewrite.h"
#include "cc/grappler/statistics.h"
#include "cc/grappler/tf_data.h"
#include "cc/grappler/weights.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tf_disc {
namespace {

using tensorflow::GraphDef;
using tensorflow::TensorShapeProto;
using tensorflow::grappler::GrapplerItem;

constexpr int kDefaultMinClusterSize = 3;
constexpr int64_t kSmallElements = 16;
// Data that a second pass finds in a core's own cache: one pass less saves
// nothing (measured from 48 K elements on).
constexpr int64_t kSmallDataElements = 16384;
// The remapper takes 20 us a node, which would be most of the pass's time on a
// graph of thousands. Functions beyond this many nodes a graph go without.
constexpr int kMaxRemappedNodes = 4000;

std::vector<std::string> ListOption(const OptionMap& options,
                                    const std::string& name) {
  const auto found = options.find(name);
  if (found == options.end()) return {};
  return absl::StrSplit(found->second, ',', absl::SkipWhitespace());
}

int MinClusterSize(const OptionMap& options) {
  const auto found = options.find("min_cluster_size");
  int size;
  if (found == options.end() || !absl::SimpleAtoi(found->second, &size)) {
    return kDefaultMinClusterSize;
  }
  return size;
}

// Shapes by TensorRef. Symbols for equal unknown sizes become plain unknowns.
class Shapes {
 public:
  Shapes(const GrapplerItem& item, const GraphIndex& graph)
      : graph_(graph), properties_(item) {}

  absl::Status Infer() {
    // Shapes of fed nodes are not to be believed: a session takes any.
    return properties_.InferStatically(/*assume_valid_feeds=*/false,
                                       /*aggressive_shape_inference=*/false,
                                       /*include_tensor_values=*/false);
  }

  TensorShapeProto Of(TensorRef tensor) const {
    const auto* known = Find(tensor);
    TensorShapeProto shape;
    if (known == nullptr || known->shape().unknown_rank()) {
      shape.set_unknown_rank(true);
      return shape;
    }
    for (const auto& dim : known->shape().dim()) {
      shape.add_dim()->set_size(dim.size() < 0 ? -1 : dim.size());
    }
    return shape;
  }

  // -1 if unknown.
  int64_t NumElements(TensorRef tensor) const {
    const auto* known = Find(tensor);
    if (known == nullptr || known->shape().unknown_rank()) return -1;
    int64_t count = 1;
    for (const auto& dim : known->shape().dim()) {
      if (dim.size() < 0) return -1;
      count *= dim.size();
    }
    return count;
  }

  // Whether an operand or a result has many elements, or may have.
  bool HasLargeData(int node) const {
    const auto is_large = [&](TensorRef tensor) {
      const int64_t count = NumElements(tensor);
      return count < 0 || count > kSmallDataElements;
    };
    const std::vector<TensorRef>& operands = graph_.operands(node);
    if (std::any_of(operands.begin(), operands.end(), is_large)) return true;
    const std::string& name = graph_.node(node).name();
    if (!properties_.HasOutputProperties(name)) return true;
    const auto& outputs = properties_.GetOutputProperties(name);
    for (size_t port = 0; port < outputs.size(); ++port) {
      if (is_large({node, static_cast<int>(port)})) return true;
    }
    return false;
  }

  bool IsSmallInteger(int node) const {
    const auto* known = Find({node, 0});
    if (known == nullptr || (known->dtype() != tensorflow::DT_INT32 &&
                             known->dtype() != tensorflow::DT_INT64)) {
      return false;
    }
    const int64_t count = NumElements({node, 0});
    return count >= 0 && count <= kSmallElements;
  }

 private:
  const tensorflow::OpInfo::TensorProperties* Find(TensorRef tensor) const {
    const std::string& name = graph_.node(tensor.node).name();
    if (!properties_.HasOutputProperties(name)) return nullptr;
    const auto& outputs = properties_.GetOutputProperties(name);
    if (tensor.port >= static_cast<int>(outputs.size())) return nullptr;
    return &outputs[tensor.port];
  }

  const GraphIndex& graph_;
  tensorflow::grappler::GraphProperties properties_;
};

std::string TaskOf(const std::string& device) {
  std::string task, rest;
  if (!tensorflow::DeviceNameUtils::SplitDeviceName(device, &task, &rest)) {
    return std::string();
  }
  return task;
}

void FillDevicePolicy(const GrapplerItem& item,
                      const tensorflow::grappler::Cluster* cluster,
                      CandidatePolicy* policy) {
  std::set<std::string> devices(item.devices().begin(), item.devices().end());
  const tensorflow::DeviceSet* device_set =
      cluster == nullptr ? nullptr : cluster->GetDeviceSet();
  if (device_set != nullptr) {
    for (const tensorflow::Device* device : device_set->devices()) {
      devices.insert(device->name());
    }
    if (device_set->client_device() != nullptr) {
      policy->own_task = TaskOf(device_set->client_device()->name());
    }
  }
  std::set<std::string> tasks;
  for (const std::string& device : devices) {
    tensorflow::DeviceNameUtils::ParsedName name;
    if (!tensorflow::DeviceNameUtils::ParseFullName(device, &name)) continue;
    if (name.has_task) tasks.insert(TaskOf(device));
    policy->has_other_devices |= name.has_type && name.type != "CPU";
  }
  policy->single_task = tasks.size() <= 1;
  if (policy->own_task.empty() && tasks.size() == 1) {
    policy->own_task = *tasks.begin();
  }
}

void RecordCluster(const GraphIndex& graph, const PlacedCluster& placed,
                   GraphRecord* record) {
  ClusterRecord cluster;
  cluster.id = placed.outlined.function.signature().name();
  cluster.launch = placed.launch_name;
  for (int i : placed.cluster.members) {
    cluster.nodes.push_back(graph.node(i).name());
    ++cluster.ops[graph.node(i).op()];
  }
  const auto& attrs = placed.outlined.launch.attr();
  cluster.num_inputs = attrs.at("Tin").list().type_size();
  cluster.num_weights = attrs.at("weight_operands").list().i_size();
  cluster.num_consts = static_cast<int>(placed.outlined.consts.size());
  record->clusters.push_back(std::move(cluster));
}

// `clustered`: by node, whether it is in a cluster.
void RecordLeft(const GraphIndex& graph, const std::vector<bool>& clustered,
                const std::vector<std::string>& reason, GraphRecord* record) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> left;
  for (int i = 0; i < graph.size(); ++i) {
    const tensorflow::NodeDef& node = graph.node(i);
    if (clustered[i] || IsOutsideCoverage(node.op()) ||
        node.op() == "DiscLaunch") {
      continue;
    }
    left[{node.op(), reason[i]}].push_back(node.name());
  }
  for (auto& [key, nodes] : left) {
    record->left.push_back({key.first, key.second, std::move(nodes)});
  }
}

// A preserved Identity at the end of a cluster would be replaced by an Identity
// of the same name: it stays as it is.
void TrimPreservedEnds(const GraphIndex& graph,
                       const absl::flat_hash_set<std::string>& preserved,
                       Cluster* cluster, std::vector<std::string>* reason) {
  const absl::flat_hash_set<int> members(cluster->members.begin(),
                                         cluster->members.end());
  const auto is_end = [&](int i) {
    if (graph.node(i).op() != "Identity" ||
        !preserved.contains(graph.node(i).name())) {
      return false;
    }
    for (const GraphIndex::Use& use : graph.uses(i)) {
      if (members.contains(use.node)) return false;
    }
    (*reason)[i] = "it hands on a value under a name that must stay";
    return true;
  };
  cluster->members.erase(
      std::remove_if(cluster->members.begin(), cluster->members.end(), is_end),
      cluster->members.end());
}

// Options f32_ops and f32_nodes, which act under precision=bf16 alone.
std::function<bool(const tensorflow::NodeDef&)> F32Policy(
    const OptionMap& options) {
  const auto precision = options.find("precision");
  if (precision == options.end() || precision->second != "bf16") {
    return [](const tensorflow::NodeDef&) { return false; };
  }
  return [ops = ListOption(options, "f32_ops"),
          patterns = ListOption(options, "f32_nodes")](
             const tensorflow::NodeDef& node) {
    return absl::c_linear_search(ops, node.op()) ||
           absl::c_any_of(patterns, [&](const std::string& pattern) {
             return MatchesPattern(node.name(), pattern);
           });
  };
}

// Fills `*result` and returns true if there is something to change.
absl::StatusOr<bool> Compile(const GrapplerItem& item,
                             const tensorflow::grappler::Cluster* cluster,
                             const PassConfig& config, const OpTable& table,
                             const OptionMap& options, GraphRecord* record,
                             GraphDef* result) {
  GraphIndex graph;
  absl::Status status = GraphIndex::Build(item.graph, &graph);
  if (!status.ok()) return status;

  CandidatePolicy policy;
  for (const auto& [name, unused] : item.feed) {
    policy.fed.insert(std::string(ParseInputName(name).node));
  }
  policy.deny_ops = ListOption(options, "deny_ops");
  policy.deny_nodes = ListOption(options, "deny_nodes");
  FillDevicePolicy(item, cluster, &policy);
  const ControlFlow flow = AnalyzeControlFlow(graph);
  Candidates candidates = FindCandidates(graph, table, flow, policy);

  std::vector<bool> clustered(graph.size(), false);
  bool any = false;
  for (int i = 0; i < graph.size() && !any; ++i) any = candidates.Is(i);
  if (!any) {
    RecordLeft(graph, clustered, candidates.reason, record);
    return false;
  }

  Shapes shapes(item, graph);
  status = shapes.Infer();
  if (!status.ok()) {
    // Shapes are a gift, not a need: ranks are taken at run time.
    VLOG(1) << "tf_disc: no shapes for \"" << item.id << "\": " << status;
  }
  GrowthPolicy growth;
  growth.min_cluster_size = MinClusterSize(options);
  growth.is_shape_arithmetic = [&](int i) { return shapes.IsSmallInteger(i); };
  growth.has_large_data = [&](int i) { return shapes.HasLargeData(i); };
  std::vector<Cluster> clusters =
      GrowClusters(graph, candidates, flow, growth, &candidates.reason);

  const std::unordered_set<std::string> keep = item.NodesToPreserve();
  absl::flat_hash_set<std::string> preserved;
  for (const std::string& name : keep) {
    preserved.insert(std::string(ParseInputName(name).node));
  }
  const WeightFinder weights(graph, item.graph.library(), policy.fed);
  const OutlineContext context{
      graph,
      candidates,
      weights,
      preserved,
      [&](TensorRef tensor) { return shapes.Of(tensor); },
      F32Policy(options),
      OptionsText(options),
      item.graph.versions().producer()};
  std::vector<PlacedCluster> placed;
  int remap_budget = config.remap ? kMaxRemappedNodes : 0;
  for (Cluster& candidate : clusters) {
    TrimPreservedEnds(graph, preserved, &candidate, &candidates.reason);
    absl::StatusOr<OutlinedCluster> outlined =
        OutlineCluster(context, candidate, &remap_budget);
    if (!outlined.ok()) {
      for (int i : candidate.members) {
        candidates.reason[i] = absl::StrCat("its cluster cannot be outlined: ",
                                            outlined.status().message());
      }
      continue;
    }
    for (int i : candidate.members) clustered[i] = true;
    placed.push_back({candidate, *std::move(outlined), std::string()});
  }
  RecordLeft(graph, clustered, candidates.reason, record);
  if (placed.empty()) return false;
  *result = RewriteGraph(item.graph, graph, preserved, &placed);
  // A cycle in the result would hang the user's program.
  GraphIndex check;
  status = GraphIndex::Build(*result, &check);
  if (status.ok()) status = CheckAcyclic(check);
  if (!status.ok()) {
    return absl::InternalError(
        absl::StrCat("the rewritten graph is not valid (a bug of tf_disc): ",
                     status.message()));
  }
  for (const PlacedCluster& one : placed) RecordCluster(graph, one, record);
  return true;
}

// Empty if the pass should look at the graph.
std::string SkipReason(const GrapplerItem& item, const OpTable* table,
                       const OptionMap& options) {
  if (table == nullptr) return "no op table was set in this process";
  const auto enabled = options.find("enabled");
  if (enabled != options.end() && enabled->second == "0") {
    return "tf_disc is disabled";
  }
  if (IsOutlinedFunctionName(item.id)) return "it is an outlined function";
  if (IsTfDataFunction(item.id, item.graph.library())) {
    return "it is a tf.data function";
  }
  if (!item.optimization_options().allow_non_differentiable_rewrites) {
    return "it may be differentiated later, and a launch has no gradient";
  }
  return std::string();
}

std::vector<std::string> LaunchedClusters(const GraphDef& graph) {
  std::vector<std::string> ids;
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (node.op() != "DiscLaunch") continue;
    const auto id = node.attr().find("cluster_id");
    if (id != node.attr().end()) ids.push_back(id->second.s());
  }
  return ids;
}

}  // namespace

void RunPass(const GrapplerItem& item,
             const tensorflow::grappler::Cluster* cluster,
             const PassConfig& config, GraphDef* result) {
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<const OpTable> table = CurrentOpTable();
  RememberTfDataFunctions(item.id, item.graph.library());
  GraphRecord record;
  record.graph = item.id;
  OptionMap options = CurrentOptions();
  record.skipped = SkipReason(item, table.get(), options);
  // A thread of tf.data that waits for a compile can starve the compile.
  if (IsCalledFromTfData(item.id)) options["mode"] = "async";
  record.options = OptionsText(options);

  bool changed = false;
  if (record.skipped.empty()) {
    const absl::StatusOr<bool> compiled =
        Compile(item, cluster, config, *table, options, &record, result);
    if (compiled.ok()) {
      changed = *compiled;
    } else {
      record.skipped = std::string(compiled.status().message());
      record.clusters.clear();
    }
  }
  if (!changed) *result = item.graph;
  if (config.remap && !IsOutlinedFunctionName(item.id)) {
    GraphDef remapped;
    if (RemapItem(item, *result, &remapped)) *result = std::move(remapped);
  }
  record.time_us = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::steady_clock::now() - start)
                       .count();
  if (changed) {
    const absl::Status dumped = DumpGraphs(item.id, item.graph, *result);
    if (!dumped.ok()) {
      LOG(WARNING) << "tf_disc: the graphs of \"" << item.id
                   << "\" are not dumped: " << dumped.message()
                   << ". Check the folder of option `dump`.";
    }
  }
  if (table != nullptr && !IsOutlinedFunctionName(item.id)) {
    RecordGraph(std::move(record), LaunchedClusters(item.graph));
  }
}

}  // namespace tf_disc
