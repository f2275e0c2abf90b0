#include "cc/grappler/rewrite.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace tf_disc {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

std::string TensorName(absl::string_view node, int port) {
  return port == 0 ? std::string(node) : absl::StrCat(node, ":", port);
}

class Rewriter {
 public:
  Rewriter(const GraphDef& graph, const GraphIndex& index,
           const absl::flat_hash_set<std::string>& preserved,
           std::vector<PlacedCluster>* clusters)
      : graph_(graph),
        index_(index),
        preserved_(preserved),
        clusters_(*clusters) {}

  GraphDef Run() {
    Number();
    FindUnusedConsts();
    GraphDef result;
    *result.mutable_versions() = graph_.versions();
    *result.mutable_library() = graph_.library();
    for (int i = 0; i < index_.size(); ++i) {
      if (cluster_of_[i] >= 0 || is_unused_[i]) continue;
      AddSurvivor(i, &result);
    }
    for (size_t c = 0; c < clusters_.size(); ++c) {
      AddLaunch(static_cast<int>(c), &result);
      AddPreserved(static_cast<int>(c), &result);
    }
    AddFunctions(&result);
    return result;
  }

 private:
  void Number() {
    cluster_of_.assign(index_.size(), -1);
    for (size_t c = 0; c < clusters_.size(); ++c) {
      PlacedCluster& placed = clusters_[c];
      for (int i : placed.cluster.members) {
        cluster_of_[i] = static_cast<int>(c);
      }
      const auto& outputs = placed.outlined.outputs;
      for (size_t k = 0; k < outputs.size(); ++k) {
        output_of_[{outputs[k].node, outputs[k].port}] = static_cast<int>(k);
      }
      const std::string base =
          absl::StrCat("tf_disc/", placed.outlined.function.signature().name());
      placed.launch_name = base;
      for (int n = 1; index_.Find(placed.launch_name) >= 0 ||
                      !launch_names_.insert(placed.launch_name).second;
           ++n) {
        placed.launch_name = absl::StrCat(base, "_", n);
      }
    }
  }

  // Copied Consts that only members used. One that had no user at all is not
  // ours to remove. One that a member only waits for is: waiting for it is
  // waiting for what it waits for.
  void FindUnusedConsts() {
    absl::flat_hash_set<std::pair<int, int>> copies;
    for (size_t c = 0; c < clusters_.size(); ++c) {
      for (int i : clusters_[c].outlined.consts) copies.insert({c, i});
    }
    is_unused_.assign(index_.size(), false);
    for (const auto& [unused, i] : copies) {
      (void)unused;
      bool is_unused = !preserved_.contains(index_.node(i).name());
      for (const GraphIndex::Use& use : index_.uses(i)) {
        is_unused &= copies.contains({cluster_of_[use.node], i});
      }
      for (int user : index_.control_uses(i)) {
        is_unused &= cluster_of_[user] >= 0;
      }
      is_unused_[i] = is_unused;
    }
  }

  std::string NewName(TensorRef tensor) const {
    const int cluster = cluster_of_[tensor.node];
    if (cluster < 0) {
      return TensorName(index_.node(tensor.node).name(), tensor.port);
    }
    return TensorName(clusters_[cluster].launch_name,
                      output_of_.at({tensor.node, tensor.port}));
  }

  // Adds control inputs, each once. A removed Const stands for what it waits
  // for itself.
  void AddControl(int from, int own_cluster,
                  absl::flat_hash_set<std::string>* seen, NodeDef* node) const {
    const int cluster = cluster_of_[from];
    if (cluster >= 0 && cluster == own_cluster) return;
    if (cluster < 0 && is_unused_[from]) {
      for (int control : index_.controls(from)) {
        AddControl(control, own_cluster, seen, node);
      }
      return;
    }
    const std::string& name = cluster >= 0 ? clusters_[cluster].launch_name
                                           : index_.node(from).name();
    if (seen->insert(name).second) node->add_input(absl::StrCat("^", name));
  }

  void AddSurvivor(int i, GraphDef* result) const {
    NodeDef* node = result->add_node();
    *node = index_.node(i);
    bool changes = false;
    for (const TensorRef& operand : index_.operands(i)) {
      changes |= cluster_of_[operand.node] >= 0;
    }
    for (int control : index_.controls(i)) {
      changes |= cluster_of_[control] >= 0 || is_unused_[control];
    }
    if (changes) {
      node->clear_input();
      for (const TensorRef& operand : index_.operands(i)) {
        node->add_input(NewName(operand));
      }
      absl::flat_hash_set<std::string> seen;
      for (int control : index_.controls(i)) {
        AddControl(control, -1, &seen, node);
      }
    }
    DropLostColocations(node);
  }

  // A node placed beside one that is gone would fail to place. It has its
  // device already.
  void DropLostColocations(NodeDef* node) const {
    const auto found = node->attr().find("_class");
    if (found == node->attr().end()) return;
    tensorflow::AttrValue kept;
    kept.mutable_list();
    bool lost = false;
    for (const std::string& text : found->second.list().s()) {
      absl::string_view name = text;
      if (absl::ConsumePrefix(&name, "loc:@")) {
        const int target = index_.Find(name);
        if (target >= 0 && cluster_of_[target] >= 0 &&
            !preserved_.contains(name)) {
          lost = true;
          continue;
        }
      }
      kept.mutable_list()->add_s(text);
    }
    if (!lost) return;
    if (kept.list().s_size() == 0) {
      node->mutable_attr()->erase("_class");
    } else {
      (*node->mutable_attr())["_class"] = std::move(kept);
    }
  }

  void AddLaunch(int c, GraphDef* result) const {
    const PlacedCluster& placed = clusters_[c];
    NodeDef* launch = result->add_node();
    *launch = placed.outlined.launch;
    launch->set_name(placed.launch_name);
    launch->set_device(index_.node(placed.cluster.members[0]).device());
    for (std::string& text : *launch->mutable_input()) {
      const InputName input = ParseInputName(text);
      text = NewName({index_.Find(input.node), input.port});
    }
    absl::flat_hash_set<std::string> seen;
    for (int i : placed.cluster.members) {
      for (int control : index_.controls(i)) {
        AddControl(control, c, &seen, launch);
      }
    }
    // A Const inside the branch of a cond waits for the branch to be taken.
    for (int i : placed.outlined.consts) {
      for (int control : index_.controls(i)) {
        AddControl(control, c, &seen, launch);
      }
    }
    for (tensorflow::DataType dtype : InputTypes(*launch)) {
      if (dtype != tensorflow::DT_RESOURCE) continue;
      // Two reads of a variable are two reads, however alike: no CSE.
      (*launch->mutable_attr())["_disc_reads"].set_s(placed.launch_name);
    }
  }

  static std::vector<tensorflow::DataType> InputTypes(const NodeDef& launch) {
    std::vector<tensorflow::DataType> types;
    for (int type : launch.attr().at("Tin").list().type()) {
      types.push_back(static_cast<tensorflow::DataType>(type));
    }
    return types;
  }

  void AddPreserved(int c, GraphDef* result) const {
    const PlacedCluster& placed = clusters_[c];
    const auto& types = placed.outlined.launch.attr().at("Tout").list();
    for (int i : placed.cluster.members) {
      const NodeDef& member = index_.node(i);
      if (!preserved_.contains(member.name())) continue;
      NodeDef* stand_in = result->add_node();
      stand_in->set_name(member.name());
      stand_in->set_device(member.device());
      std::vector<int> ports;
      for (int port = 0;; ++port) {
        const auto output = output_of_.find({i, port});
        if (output == output_of_.end()) break;
        stand_in->add_input(TensorName(placed.launch_name, output->second));
        ports.push_back(output->second);
      }
      auto& attr = (*stand_in->mutable_attr())["T"];
      if (ports.size() == 1) {
        stand_in->set_op("Identity");
        attr.set_type(static_cast<tensorflow::DataType>(types.type(ports[0])));
      } else {
        stand_in->set_op("IdentityN");
        for (int port : ports) {
          attr.mutable_list()->add_type(
              static_cast<tensorflow::DataType>(types.type(port)));
        }
      }
    }
  }

  void AddFunctions(GraphDef* result) const {
    absl::flat_hash_set<std::string> names;
    for (const auto& function : result->library().function()) {
      names.insert(function.signature().name());
    }
    const auto add = [&](const tensorflow::FunctionDef& function) {
      const std::string& name = function.signature().name();
      if (name.empty() || !names.insert(name).second) return;
      *result->mutable_library()->add_function() = function;
    };
    for (const PlacedCluster& placed : clusters_) {
      add(placed.outlined.function);
      add(placed.outlined.fallback);
    }
  }

  const GraphDef& graph_;
  const GraphIndex& index_;
  const absl::flat_hash_set<std::string>& preserved_;
  std::vector<PlacedCluster>& clusters_;

  std::vector<int> cluster_of_;
  std::vector<bool> is_unused_;
  absl::flat_hash_map<std::pair<int, int>, int> output_of_;
  absl::flat_hash_set<std::string> launch_names_;
};

}  // namespace

GraphDef RewriteGraph(const GraphDef& graph, const GraphIndex& index,
                      const absl::flat_hash_set<std::string>& preserved,
                      std::vector<PlacedCluster>* clusters) {
  return Rewriter(graph, index, preserved, clusters).Run();
}

}  // namespace tf_disc
