// Two steps. First every node gets a level: how often a path from the graph's
// inputs to it leaves a cluster for a node that cannot share it and comes back.
// Candidates of one level and one class (predicate, frame, device) that are
// connected form a group; no path leads out of a level and back into it, so
// groups are free of cycles by construction, in linear time. Then groups of
// different levels are merged along their edges where no other path joins
// them, which brings together what only an unrelated part of the graph kept
// apart.
//
// Control edges are edges, and each loop's inputs come before its outputs
// (cc/grappler/loops.h). A copied Const is part of its users, so its control
// inputs are theirs.
#include "cc/grappler/growth.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/grappler/loops.h"

namespace tf_disc {
namespace {

// What an op that pays by itself counts for.
constexpr int kOpsOfOneAlone = 3;

class Growth {
 public:
  Growth(const GraphIndex& graph, const Candidates& candidates,
         const ControlFlow& flow, const GrowthPolicy& policy)
      : graph_(graph), candidates_(candidates), flow_(flow), policy_(policy) {}

  std::vector<Cluster> Run(std::vector<std::string>* reason) {
    AssignClasses();
    FindFollowed();
    FindEdges();
    if (!Sort()) {
      for (int i = 0; i < graph_.size(); ++i) {
        if (Is(i)) (*reason)[i] = "a loop's input waits for one of its outputs";
      }
      return {};
    }
    AssignLevels();
    FormGroups();
    MergeGroups();
    return Worthwhile(reason);
  }

 private:
  // An edge between nodes, with copied Consts taken out of the way.
  struct Edge {
    int from;
    int to;
    // The launch must see this tensor, so producer and user cannot share it.
    bool must_cross;
  };

  // Nodes and, after them, the hubs of loops, which are no candidates.
  bool Is(int i) const { return i < graph_.size() && candidates_.Is(i); }

  void AssignClasses() {
    class_.assign(graph_.size(), -1);
    absl::flat_hash_map<std::tuple<int, int, absl::string_view>, int> classes;
    for (int i = 0; i < graph_.size(); ++i) {
      if (!Is(i)) continue;
      const auto key =
          std::make_tuple(flow_.predicate[i], flow_.frame[i],
                          absl::string_view(graph_.node(i).device()));
      class_[i] =
          classes.emplace(key, static_cast<int>(classes.size())).first->second;
    }
  }

  // A value that the compiler needs while it compiles must be known when the
  // launch starts, as a Const inside the cluster or an input of it, or be
  // computed of such.
  bool MustCross(int to, int operand) const {
    const TensorRef from = graph_.operands(to)[operand];
    if (!candidates_.Is(from.node)) return false;
    const OpRule& rule = candidates_.row[to]->rule;
    const int count = static_cast<int>(graph_.operands(to).size());
    if (HasPosition(rule.by_value, operand, count)) {
      return !candidates_.constant[from.node];
    }
    return HasPosition(rule.by_length, operand, count) && !followed_[from.node];
  }

  // Candidates whose results the compiler follows as sizes: what is computed of
  // shapes, small Consts and small integers from outside. Others have to be an
  // input of the cluster where an operand says sizes.
  void FindFollowed() {
    followed_.assign(graph_.size(), false);
    for (int i : graph_.order()) {
      if (candidates_.Is(i)) followed_[i] = IsFollowed(i);
    }
  }

  bool IsFollowed(int i) const {
    const OpTable::Row& row = *candidates_.row[i];
    if (row.constant == OpConstant::kAlways ||
        row.constant == OpConstant::kSizes) {
      return true;
    }
    if (row.constant == OpConstant::kNo && row.cost != OpCost::kShape) {
      return false;
    }
    for (const TensorRef& operand : graph_.operands(i)) {
      if (candidates_.copied_const[operand.node]) continue;
      if (candidates_.Is(operand.node)) {
        if (!followed_[operand.node]) return false;
      } else if (row.rule.op != "Identity" &&
                 !policy_.is_shape_arithmetic(operand.node)) {
        // An Identity hands on what is asked of it.
        return false;
      }
    }
    return true;
  }

  void FindEdges() {
    const LoopHubs hubs = FindLoopHubs(graph_, flow_);
    size_ = graph_.size() + hubs.num_hubs;
    in_.resize(size_);
    out_.resize(size_);
    for (const auto& [from, to] : hubs.edges) {
      in_[to].push_back({from, to, false});
      out_[from].push_back({from, to, false});
    }
    for (int to = 0; to < graph_.size(); ++to) {
      const auto add = [&](int from, bool must_cross) {
        if (graph_.IsBackEdge(from, to)) return;
        in_[to].push_back({from, to, must_cross});
        out_[from].push_back({from, to, must_cross});
      };
      const std::vector<TensorRef>& operands = graph_.operands(to);
      for (size_t k = 0; k < operands.size(); ++k) {
        const int from = operands[k].node;
        if (candidates_.Is(to) && candidates_.copied_const[from]) {
          for (int control : graph_.controls(from)) add(control, false);
          continue;
        }
        add(from, candidates_.Is(to) && MustCross(to, static_cast<int>(k)));
      }
      for (int control : graph_.controls(to)) add(control, false);
    }
  }

  bool Sort() {
    std::vector<std::pair<int, int>> edges;
    for (const std::vector<Edge>& in : in_) {
      for (const Edge& edge : in) edges.emplace_back(edge.from, edge.to);
    }
    absl::StatusOr<std::vector<int>> order = TopologicalOrder(size_, edges);
    if (order.ok()) order_ = *std::move(order);
    return order.ok();
  }

  bool CanShare(const Edge& edge) const {
    return Is(edge.from) && Is(edge.to) &&
           class_[edge.from] == class_[edge.to] && !edge.must_cross;
  }

  void AssignLevels() {
    level_.assign(size_, 0);
    for (int i : order_) {
      for (const Edge& edge : in_[i]) {
        const bool leaves = Is(edge.from) && !CanShare(edge);
        level_[i] = std::max(level_[i], level_[edge.from] + (leaves ? 1 : 0));
      }
    }
  }

  int Find(int i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }

  void FormGroups() {
    parent_.resize(size_);
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int i : order_) {
      for (const Edge& edge : in_[i]) {
        if (level_[edge.from] == level_[edge.to] && CanShare(edge)) {
          parent_[Find(edge.to)] = Find(edge.from);
        }
      }
    }
    members_.resize(size_);
    for (int i : order_) members_[Find(i)].push_back(i);
  }

  // From a group all of whose levels are above this, no path leads to `to`.
  // Levels never fall along an edge; only a merged group can be entered at a
  // high level and left at a low one.
  int Reach(int to) {
    int reach = last_level_[to];
    for (bool changed = true; changed;) {
      changed = false;
      for (int group : merged_) {
        --budget_;
        if (first_level_[group] <= reach && last_level_[group] > reach) {
          reach = last_level_[group];
          changed = true;
        }
      }
    }
    return reach;
  }

  // Whether a path from group `from` to group `to` has a node of another group
  // on it. True as well when the budget of steps is used up: then nothing more
  // is merged.
  bool OtherPath(int from, int to) {
    ++stamp_;
    const int reach = Reach(to);
    std::vector<int> stack = {from};
    visited_[from] = stamp_;
    while (!stack.empty()) {
      const int group = stack.back();
      stack.pop_back();
      for (int member : members_[group]) {
        for (const Edge& edge : out_[member]) {
          if (--budget_ < 0) return true;
          const int next = Find(edge.to);
          if (next == to) {
            if (group != from) return true;
            continue;
          }
          if (visited_[next] == stamp_ || first_level_[next] > reach) continue;
          visited_[next] = stamp_;
          stack.push_back(next);
        }
      }
    }
    return false;
  }

  bool MustStayApart(int a, int b) {
    for (const Edge& edge : crossing_) {
      const int from = Find(edge.from);
      const int to = Find(edge.to);
      if ((from == a && to == b) || (from == b && to == a)) return true;
    }
    return false;
  }

  void MergeGroups() {
    visited_.assign(size_, 0);
    first_level_ = level_;
    last_level_ = level_;
    std::vector<Edge> edges;
    for (int i : order_) {
      for (const Edge& edge : in_[i]) {
        if (edge.must_cross) crossing_.push_back(edge);
        if (CanShare(edge) && Find(edge.from) != Find(edge.to)) {
          edges.push_back(edge);
        }
      }
    }
    // One merge can make another possible that was refused before it.
    for (bool changed = true; changed;) {
      changed = false;
      absl::flat_hash_set<std::pair<int, int>> refused;
      for (const Edge& edge : edges) {
        const int from = Find(edge.from);
        const int to = Find(edge.to);
        if (from == to || !refused.emplace(from, to).second) continue;
        if (MustStayApart(from, to) || OtherPath(from, to)) continue;
        Merge(from, to);
        changed = true;
      }
    }
  }

  void Merge(int from, int to) {
    parent_[to] = from;
    first_level_[from] = std::min(first_level_[from], first_level_[to]);
    last_level_[from] = std::max(last_level_[from], last_level_[to]);
    members_[from].insert(members_[from].end(), members_[to].begin(),
                          members_[to].end());
    members_[to].clear();
    merged_.erase(to);
    merged_.insert(from);
  }

  // Grappler makes one node of a chain of unary ops.
  int NumOps(int i) const {
    const auto names = graph_.node(i).attr().find("op_names");
    if (graph_.node(i).op() != "_UnaryOpsComposition" ||
        names == graph_.node(i).attr().end()) {
      return 1;
    }
    return names->second.list().s_size();
  }

  // Whether TensorFlow's remapper may make the node part of the op that feeds
  // it. That op stays with TensorFlow, and would be alone there.
  bool MayFuseWithOperand(int i) const {
    static constexpr absl::string_view kFusing[] = {
        "Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul"};
    for (const TensorRef& operand : graph_.operands(i)) {
      if (candidates_.Is(operand.node)) continue;
      const std::string& op = graph_.node(operand.node).op();
      if (std::find(std::begin(kFusing), std::end(kFusing), op) !=
          std::end(kFusing)) {
        return true;
      }
    }
    return false;
  }

  // Empty if a cluster of these nodes without a heavy op is worth a launch,
  // else why not.
  std::string TooSmall(const std::vector<int>& members) const {
    int ops = 0;
    bool has_large_data = false;
    bool may_fuse = false;
    int extra = 0;
    for (int i : members) {
      may_fuse |= MayFuseWithOperand(i);
      const OpTable::Row& row = *candidates_.row[i];
      if ((row.cost != OpCost::kReal && row.cost != OpCost::kMove) ||
          policy_.is_shape_arithmetic(i)) {
        continue;
      }
      ops += NumOps(i);
      const bool is_large = policy_.has_large_data(i);
      has_large_data |= is_large;
      if (row.rule.alone && is_large) extra += kOpsOfOneAlone - 1;
    }
    int needed = policy_.min_cluster_size;
    if (has_large_data && !may_fuse) {
      ops += extra;
      --needed;
    }
    if (ops >= std::max(needed, 1)) return std::string();
    return absl::StrCat("its cluster is too small: ", ops, " of at least ",
                        needed, " ops, none of them heavy");
  }

  std::vector<Cluster> Worthwhile(std::vector<std::string>* reason) {
    std::vector<int> position(size_);
    for (int k = 0; k < size_; ++k) position[order_[k]] = k;
    std::vector<Cluster> clusters;
    for (int root = 0; root < size_; ++root) {
      std::vector<int>& members = members_[root];
      if (members.empty() || !Is(members[0])) continue;
      bool heavy = false;
      bool has_input = false;
      for (int i : members) {
        heavy |= candidates_.row[i]->cost == OpCost::kHeavy;
        for (const TensorRef& operand : graph_.operands(i)) {
          has_input |= Find(operand.node) != root &&
                       graph_.node(operand.node).op() != "Const";
        }
      }
      std::string why;
      if (!has_input) {
        // Nothing to compute at run time; and Grappler's constant folding
        // would try to run the launch.
        why = "its cluster depends on constants only";
      } else if (!heavy) {
        why = TooSmall(members);
      }
      if (!why.empty()) {
        for (int i : members) (*reason)[i] = why;
        continue;
      }
      std::sort(members.begin(), members.end(),
                [&](int a, int b) { return position[a] < position[b]; });
      clusters.push_back({members});
    }
    std::sort(clusters.begin(), clusters.end(),
              [&](const Cluster& a, const Cluster& b) {
                return position[a.members[0]] < position[b.members[0]];
              });
    return clusters;
  }

  const GraphIndex& graph_;
  const Candidates& candidates_;
  const ControlFlow& flow_;
  const GrowthPolicy& policy_;

  int size_ = 0;
  std::vector<int> order_;
  std::vector<int> class_;
  std::vector<bool> followed_;
  std::vector<std::vector<Edge>> in_;
  std::vector<std::vector<Edge>> out_;
  std::vector<int> level_;

  std::vector<int> parent_;
  // By group's root.
  std::vector<std::vector<int>> members_;
  std::vector<int> first_level_;
  std::vector<int> last_level_;
  absl::flat_hash_set<int> merged_;
  std::vector<Edge> crossing_;
  std::vector<int> visited_;
  int stamp_ = 0;
  // About 20 ms. A graph that needs more keeps the groups it has by then.
  int64_t budget_ = 2000000;
};

}  // namespace

std::vector<Cluster> GrowClusters(const GraphIndex& graph,
                                  const Candidates& candidates,
                                  const ControlFlow& flow,
                                  const GrowthPolicy& policy,
                                  std::vector<std::string>* reason) {
  return Growth(graph, candidates, flow, policy).Run(reason);
}

}  // namespace tf_disc
