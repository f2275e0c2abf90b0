// Which nodes may join a cluster at all, each for itself; and for those that
// may not, why, in words.
#ifndef TF_DISC_CC_GRAPPLER_CANDIDATES_H_
#define TF_DISC_CC_GRAPPLER_CANDIDATES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "cc/grappler/deadness.h"
#include "cc/grappler/graph_index.h"
#include "cc/grappler/op_table.h"

namespace tf_disc {

// What the user and Grappler ask of one graph.
struct CandidatePolicy {
  // Nodes whose outputs a session replaces.
  absl::flat_hash_set<std::string> fed;
  // Options deny_ops and deny_nodes; a `*` in a node's name stands for any
  // text.
  std::vector<std::string> deny_ops;
  std::vector<std::string> deny_nodes;
  // "/job:localhost/replica:0/task:0": the task that the pass runs in; empty
  // if unknown, and then a node on a named task is accepted only if
  // `single_task`.
  std::string own_task;
  bool single_task = true;
  bool has_other_devices = false;  // A device that is not a CPU exists.
};

struct Candidates {
  // By node. Null: it stays with TensorFlow, and `reason` says why.
  std::vector<const OpTable::Row*> row;
  std::vector<std::string> reason;
  // By node. A Const that is copied into each cluster that uses it.
  std::vector<bool> copied_const;

  // By node. Candidates whose results the compiler knows as constants when all
  // of the candidates that they are computed of are in the cluster, too.
  std::vector<bool> constant;

  bool Is(int node) const { return row[node] != nullptr; }
};

// Consts up to this size are copied; larger ones stay outside, as weights, and
// are never in the cluster file, the signature or the FunctionDef. One value
// for all elements is small at any shape.
constexpr int64_t kCopiedConstBytes = 4096;

Candidates FindCandidates(const GraphIndex& graph, const OpTable& table,
                          const ControlFlow& flow,
                          const CandidatePolicy& policy);

// Whether `text` matches `pattern`, in which `*` stands for any text.
bool MatchesPattern(absl::string_view text, absl::string_view pattern);

// Nodes that hold data, calls or reads, which nobody expects in a cluster; the
// coverage figure leaves them out.
bool IsOutsideCoverage(absl::string_view op);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_CANDIDATES_H_
