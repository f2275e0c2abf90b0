// What the pass did, for report(): one record a graph.
#ifndef TF_DISC_CC_GRAPPLER_STATISTICS_H_
#define TF_DISC_CC_GRAPPLER_STATISTICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tf_disc {

struct ClusterRecord {
  std::string id;  // The outlined function's name too.
  std::string launch;
  // Members, without copied Consts.
  std::vector<std::string> nodes;
  std::map<std::string, int> ops;
  int num_inputs = 0;
  int num_weights = 0;
  int num_consts = 0;
};

struct LeftNodes {
  std::string op;
  std::string reason;
  std::vector<std::string> nodes;
};

struct GraphRecord {
  std::string graph;  // Grappler's id: the function's name, or "tf_graph".
  // Why the pass left the whole graph alone; empty if it did not.
  std::string skipped;
  std::vector<ClusterRecord> clusters;
  std::vector<LeftNodes> left;
  std::string options;
  int64_t time_us = 0;
  // Set by RecordGraph.
  int num_calls = 0;
};

// Grappler optimises each graph twice. A call that finds launches of an earlier
// one in the graph (`launches`: their cluster ids) continues that record: its
// new clusters are added, and the nodes that were left are still those of the
// first call, before TensorFlow's own fusions renamed them. Any thread.
void RecordGraph(GraphRecord record, const std::vector<std::string>& launches);

// {"graphs": [{"graph", "skipped", "options", "calls", "time_us",
//              "nodes": counted nodes, "in_clusters": those in clusters,
//              "clusters": [{"id", "launch", "num_nodes", "ops": {op: count},
//                            "nodes": [name], "inputs", "weights", "consts"}],
//              "left": [{"op", "reason", "count", "nodes": [up to 5]}]}],
//  "nodes", "in_clusters", "dropped": records that were let go}
// Counted nodes are those that IsOutsideCoverage does not name.
std::string PassStatisticsJson();

void ResetPassStatistics();

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_STATISTICS_H_
