#include "cc/grappler/deadness.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tf_disc {
namespace {

// A literal is "tensor (node, port) chose branch `branch` of `num_branches`",
// or a symbol with no structure (num_branches = 0).
struct Literal {
  int node;
  int port;
  int branch;
  int num_branches;
};

using LiteralSet = std::vector<int>;  // Sorted.

class Analysis {
 public:
  explicit Analysis(const GraphIndex& graph) : graph_(graph) {
    Intern(LiteralSet());
  }

  ControlFlow Run() {
    ControlFlow result;
    bool has_control_flow = false;
    for (int i = 0; i < graph_.size() && !has_control_flow; ++i) {
      has_control_flow = IsSource(graph_.node(i).op());
    }
    if (!has_control_flow) {
      result.predicate.assign(graph_.size(), 0);
      result.frame.assign(graph_.size(), 0);
      return result;
    }
    AssignFrames();
    AssignPredicates();
    result.predicate = predicate_;
    result.frame = frame_;
    return result;
  }

 private:
  static bool IsReceive(absl::string_view op) {
    return op == "_Recv" || op == "Recv" || op == "_HostRecv";
  }
  static bool IsSource(absl::string_view op) {
    return IsSwitchOp(op) || IsMergeOp(op) || IsEnterOp(op) || IsReceive(op);
  }

  // --- Frames ---------------------------------------------------------------

  void AssignFrames() {
    frame_.assign(graph_.size(), 0);
    std::vector<int> parent = {-1};
    std::map<std::pair<int, std::string>, int> children;
    for (int i : graph_.order()) {
      int frame = 0;
      bool has_input = false;
      const auto join = [&](int from) {
        if (graph_.IsBackEdge(from, i)) return;
        if (!has_input) {
          frame = frame_[from];
          has_input = true;
        } else if (frame != frame_[from]) {
          frame = -1;
        }
      };
      for (const TensorRef& operand : graph_.operands(i)) join(operand.node);
      for (int control : graph_.controls(i)) join(control);
      const tensorflow::NodeDef& node = graph_.node(i);
      if (frame >= 0 && IsEnterOp(node.op())) {
        const auto name = node.attr().find("frame_name");
        const auto [child, is_new] = children.emplace(
            std::make_pair(frame, name == node.attr().end() ? node.name()
                                                            : name->second.s()),
            static_cast<int>(parent.size()));
        if (is_new) parent.push_back(frame);
        frame = child->second;
      } else if (frame >= 0 && IsExitOp(node.op())) {
        frame = parent[frame];
      }
      frame_[i] = frame;
    }
  }

  // --- Sets of literals -----------------------------------------------------

  int Intern(LiteralSet set) {
    const auto [found, is_new] =
        set_ids_.emplace(std::move(set), static_cast<int>(sets_.size()));
    if (is_new) sets_.push_back(found->first);
    return found->second;
  }

  int LiteralId(std::array<int, 5> key) {
    const auto [found, is_new] =
        literal_ids_.emplace(key, static_cast<int>(literals_.size()));
    if (is_new) literals_.push_back({key[1], key[2], key[3], key[4]});
    return found->second;
  }

  int Both(int a, int b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    LiteralSet both;
    std::set_union(sets_[a].begin(), sets_[a].end(), sets_[b].begin(),
                   sets_[b].end(), std::back_inserter(both));
    return Intern(std::move(both));
  }

  int With(int set, int literal) { return Both(set, Intern({literal})); }

  // A symbol that stands for "any of these sets", for equal lists the same.
  int AnyOfSymbol(const std::vector<int>& sets) {
    const auto [found, is_new] =
        any_of_.emplace(sets, static_cast<int>(any_of_.size()));
    return LiteralId({kAnyOf, found->second, 0, 0, 0});
  }

  // If `sets` has one set for each branch of one choice, and they are equal but
  // for that choice, replaces them by what they share.
  bool ResolveOneChoice(std::vector<LiteralSet>* sets) const {
    for (const LiteralSet& first : *sets) {
      for (int literal : first) {
        const Literal& choice = literals_[literal];
        if (choice.num_branches == 0) continue;
        LiteralSet rest = first;
        rest.erase(std::find(rest.begin(), rest.end(), literal));
        std::vector<size_t> matches;
        std::vector<bool> seen(choice.num_branches, false);
        for (size_t s = 0; s < sets->size(); ++s) {
          const LiteralSet& set = (*sets)[s];
          if (set.size() != first.size()) continue;
          for (int other : set) {
            const Literal& o = literals_[other];
            if (o.num_branches != choice.num_branches ||
                o.node != choice.node || o.port != choice.port) {
              continue;
            }
            LiteralSet other_rest = set;
            other_rest.erase(
                std::find(other_rest.begin(), other_rest.end(), other));
            if (other_rest != rest || seen[o.branch]) continue;
            seen[o.branch] = true;
            matches.push_back(s);
            break;
          }
        }
        if (static_cast<int>(matches.size()) != choice.num_branches) continue;
        for (auto m = matches.rbegin(); m != matches.rend(); ++m) {
          sets->erase(sets->begin() + static_cast<int64_t>(*m));
        }
        sets->push_back(std::move(rest));
        return true;
      }
    }
    return false;
  }

  // The predicate of a Merge of inputs with these predicates.
  int AnyOf(const std::vector<int>& inputs) {
    if (inputs.empty()) return 0;
    std::vector<LiteralSet> sets;
    for (int input : inputs) sets.push_back(sets_[input]);
    do {
      std::sort(sets.begin(), sets.end());
      sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
      // A set that holds another's literals and more adds nothing.
      for (size_t i = 0; i < sets.size();) {
        bool absorbed = false;
        for (size_t j = 0; j < sets.size() && !absorbed; ++j) {
          absorbed = i != j && std::includes(sets[i].begin(), sets[i].end(),
                                             sets[j].begin(), sets[j].end());
        }
        if (absorbed) {
          sets.erase(sets.begin() + static_cast<int64_t>(i));
        } else {
          ++i;
        }
      }
    } while (sets.size() > 1 && ResolveOneChoice(&sets));
    if (sets.size() == 1) return Intern(sets[0]);
    LiteralSet common = sets[0];
    std::vector<int> ids;
    for (const LiteralSet& set : sets) {
      LiteralSet both;
      std::set_intersection(common.begin(), common.end(), set.begin(),
                            set.end(), std::back_inserter(both));
      common = std::move(both);
      ids.push_back(Intern(set));
    }
    std::sort(ids.begin(), ids.end());
    return With(Intern(std::move(common)), AnyOfSymbol(ids));
  }

  // --- Nodes ----------------------------------------------------------------

  // The tensor that a Switch decides by, behind Identity nodes, so that the
  // many Switches of one cond share their literals.
  TensorRef Decider(int switch_node) const {
    TensorRef decider = graph_.operands(switch_node)[1];
    while (graph_.node(decider.node).op() == "Identity" &&
           graph_.operands(decider.node).size() == 1) {
      decider = graph_.operands(decider.node)[0];
    }
    return decider;
  }

  int BranchLiteral(int switch_node, int port) {
    const TensorRef decider = Decider(switch_node);
    const tensorflow::NodeDef& node = graph_.node(switch_node);
    int num_branches = 2;
    if (node.op() == "_SwitchN") {
      const auto outs = node.attr().find("num_outs");
      // Switch sends false to 0 and true to 1 of one boolean, _SwitchN an
      // integer to one of many: the kinds are never mixed by number.
      num_branches =
          outs == node.attr().end() ? 0 : static_cast<int>(outs->second.i());
      return LiteralId(
          {kChoiceOfN, decider.node, decider.port, port, num_branches});
    }
    return LiteralId({kChoice, decider.node, decider.port, port, num_branches});
  }

  int OutputPredicate(TensorRef tensor) {
    const int predicate = predicate_[tensor.node];
    if (!IsSwitchOp(graph_.node(tensor.node).op()) ||
        graph_.operands(tensor.node).size() < 2) {
      return predicate;
    }
    return With(predicate, BranchLiteral(tensor.node, tensor.port));
  }

  int FreshSymbol(int node) { return LiteralId({kFresh, node, 0, 0, 0}); }

  struct LoopMerge {
    int node = -1;
    int next = -1;  // The NextIteration.
    int set = -1;   // The Merge's predicate in this round.
  };

  bool IsLoopMerge(int node, int* next) const {
    *next = -1;
    for (const TensorRef& operand : graph_.operands(node)) {
      if (!graph_.IsBackEdge(operand.node, node)) continue;
      if (*next >= 0) return false;  // Two back edges: not a shape we know.
      *next = operand.node;
    }
    return *next >= 0;
  }

  int MergePredicate(int i) {
    int next;
    const bool is_loop = IsLoopMerge(i, &next);
    std::vector<int> inputs;
    bool has_back_edge = false;
    for (const TensorRef& operand : graph_.operands(i)) {
      if (graph_.IsBackEdge(operand.node, i)) {
        has_back_edge = true;
      } else {
        inputs.push_back(OutputPredicate(operand));
      }
    }
    if (!has_back_edge) return AnyOf(inputs);
    if (!is_loop || inputs.size() != 1) return Intern({FreshSymbol(i)});
    // Alive in iteration 0 when the Enter is, later when the NextIteration
    // was. Merges for which both agree share one symbol, by induction over the
    // iterations; AssignPredicates checks the agreement and splits the class.
    const int symbol =
        LiteralId({kLoop, frame_[i], inputs[0], loop_class_[i], 0});
    const int set = With(inputs[0], symbol);
    loop_merges_.push_back({i, next, set});
    enter_of_set_[set] = inputs[0];
    return set;
  }

  // An Exit fires once the loop ends. Where all values of the loop stay alive
  // as long as the condition holds (they do, in a while loop of TensorFlow's
  // making) it is alive whenever the loop was entered.
  int ExitPredicate(int i) {
    const TensorRef from = graph_.operands(i)[0];
    const int input = OutputPredicate(from);
    const int own = predicate_[from.node];
    const auto enter = enter_of_set_.find(own);
    if (exits_follow_enters_ && enter != enter_of_set_.end() &&
        graph_.node(from.node).op() == "Switch" && from.port == 0 &&
        graph_.operands(from.node).size() == 2) {
      const auto next = next_of_set_.find(own);
      if (next != next_of_set_.end() &&
          next->second == With(own, BranchLiteral(from.node, 1))) {
        return enter->second;
      }
    }
    return Intern({LiteralId({kExit, frame_[from.node], input, 0, 0})});
  }

  int NodePredicate(int i) {
    const std::string& op = graph_.node(i).op();
    if (IsMergeOp(op)) return MergePredicate(i);
    if (IsExitOp(op) && graph_.operands(i).size() == 1) {
      return ExitPredicate(i);
    }
    if (IsReceive(op)) return Intern({FreshSymbol(i)});
    int predicate = 0;
    for (const TensorRef& operand : graph_.operands(i)) {
      predicate = Both(predicate, OutputPredicate(operand));
    }
    for (int control : graph_.controls(i)) {
      predicate = Both(predicate, predicate_[control]);
    }
    return predicate;
  }

  void OneRound() {
    predicate_.assign(graph_.size(), 0);
    loop_merges_.clear();
    enter_of_set_.clear();
    for (int i : graph_.order()) predicate_[i] = NodePredicate(i);
  }

  void AssignPredicates() {
    loop_class_.assign(graph_.size(), 0);
    int num_classes = 1;
    // Each round either splits a class or only re-checks what it assumed about
    // exits. Well-formed loops agree at once; ten rounds are plenty.
    for (int round = 0; round < 10; ++round) {
      OneRound();
      std::map<int, int> next_of_set;
      std::map<std::pair<int, int>, int> split;
      bool changed = false;
      for (const LoopMerge& merge : loop_merges_) {
        const int next = predicate_[merge.next];
        const auto [first, is_new] = next_of_set.emplace(merge.set, next);
        if (is_new || first->second == next) continue;
        const auto [found, is_new_class] =
            split.emplace(std::make_pair(merge.set, next), num_classes);
        if (is_new_class) ++num_classes;
        loop_class_[merge.node] = found->second;
        changed = true;
      }
      if (!changed && next_of_set == next_of_set_) return;
      next_of_set_ = std::move(next_of_set);
    }
    for (int i = 0; i < graph_.size(); ++i) loop_class_[i] = num_classes + i;
    exits_follow_enters_ = false;
    OneRound();
  }

  enum Kind { kChoice, kChoiceOfN, kAnyOf, kFresh, kLoop, kExit };

  const GraphIndex& graph_;
  std::vector<int> frame_;
  std::vector<int> predicate_;

  std::vector<Literal> literals_;
  std::map<std::array<int, 5>, int> literal_ids_;
  std::vector<LiteralSet> sets_;
  std::map<LiteralSet, int> set_ids_;
  std::map<std::vector<int>, int> any_of_;

  std::vector<int> loop_class_;
  std::vector<LoopMerge> loop_merges_;
  std::map<int, int> enter_of_set_;
  std::map<int, int> next_of_set_;
  bool exits_follow_enters_ = true;
};

}  // namespace

ControlFlow AnalyzeControlFlow(const GraphIndex& graph) {
  return Analysis(graph).Run();
}

}  // namespace tf_disc
