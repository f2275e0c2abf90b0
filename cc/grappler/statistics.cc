#include "cc/grappler/statistics.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "cc/base/json_writer.h"
#include "cc/grappler/candidates.h"

namespace tf_disc {
namespace {

// A process that traces for ever must not grow for ever.
constexpr size_t kMaxRecords = 2000;
constexpr size_t kNamesShown = 5;

struct State {
  absl::Mutex mutex;
  std::deque<GraphRecord> records ABSL_GUARDED_BY(mutex);
  int64_t dropped ABSL_GUARDED_BY(mutex) = 0;
};

State& GetState() {
  static State* state = new State;
  return *state;
}

// Takes nodes that are in a cluster by now off the list of those left.
void RemoveClustered(const std::vector<ClusterRecord>& clusters,
                     std::vector<LeftNodes>* left) {
  absl::flat_hash_set<std::string> clustered;
  for (const ClusterRecord& cluster : clusters) {
    clustered.insert(cluster.nodes.begin(), cluster.nodes.end());
  }
  for (LeftNodes& group : *left) {
    group.nodes.erase(std::remove_if(group.nodes.begin(), group.nodes.end(),
                                     [&](const std::string& name) {
                                       return clustered.contains(name);
                                     }),
                      group.nodes.end());
  }
  left->erase(std::remove_if(
                  left->begin(), left->end(),
                  [](const LeftNodes& group) { return group.nodes.empty(); }),
              left->end());
}

bool HoldsCluster(const GraphRecord& record,
                  const std::vector<std::string>& ids) {
  for (const ClusterRecord& cluster : record.clusters) {
    if (std::find(ids.begin(), ids.end(), cluster.id) != ids.end()) return true;
  }
  return false;
}

// Whether `later` is the second look at a graph in which the first saw no
// cluster.
bool IsSecondLook(const GraphRecord& earlier, const GraphRecord& later) {
  return earlier.num_calls == 1 && earlier.clusters.empty() &&
         later.clusters.empty() && earlier.skipped == later.skipped;
}

int NumClustered(const GraphRecord& record) {
  int count = 0;
  for (const ClusterRecord& cluster : record.clusters) {
    count += static_cast<int>(cluster.nodes.size());
  }
  return count;
}

int NumLeft(const GraphRecord& record) {
  int count = 0;
  for (const LeftNodes& group : record.left) {
    if (!IsOutsideCoverage(group.op)) {
      count += static_cast<int>(group.nodes.size());
    }
  }
  return count;
}

void WriteCluster(const ClusterRecord& cluster, JsonWriter* json) {
  json->BeginObject();
  json->Key("id").Value(cluster.id);
  json->Key("launch").Value(cluster.launch);
  json->Key("num_nodes").Value(cluster.nodes.size());
  json->Key("ops").BeginObject();
  for (const auto& [op, count] : cluster.ops) json->Key(op).Value(count);
  json->EndObject();
  json->Key("nodes").Array(cluster.nodes);
  json->Key("inputs").Value(cluster.num_inputs);
  json->Key("weights").Value(cluster.num_weights);
  json->Key("consts").Value(cluster.num_consts);
  json->EndObject();
}

void WriteRecord(const GraphRecord& record, JsonWriter* json) {
  const int clustered = NumClustered(record);
  json->BeginObject();
  json->Key("graph").Value(record.graph);
  json->Key("skipped").Value(record.skipped);
  json->Key("options").Value(record.options);
  json->Key("calls").Value(record.num_calls);
  json->Key("time_us").Value(record.time_us);
  json->Key("nodes").Value(clustered + NumLeft(record));
  json->Key("in_clusters").Value(clustered);
  json->Key("clusters").BeginArray();
  for (const ClusterRecord& cluster : record.clusters) {
    WriteCluster(cluster, json);
  }
  json->EndArray();
  json->Key("left").BeginArray();
  for (const LeftNodes& group : record.left) {
    json->BeginObject();
    json->Key("op").Value(group.op);
    json->Key("reason").Value(group.reason);
    json->Key("count").Value(group.nodes.size());
    json->Key("nodes").BeginArray();
    for (size_t i = 0; i < group.nodes.size() && i < kNamesShown; ++i) {
      json->Value(group.nodes[i]);
    }
    json->EndArray().EndObject();
  }
  json->EndArray().EndObject();
}

}  // namespace

void RecordGraph(GraphRecord record, const std::vector<std::string>& launches) {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  record.num_calls = 1;
  for (auto r = state.records.rbegin(); r != state.records.rend(); ++r) {
    if (r->graph != record.graph) continue;
    if (!HoldsCluster(*r, launches) && !IsSecondLook(*r, record)) break;
    GraphRecord& earlier = *r;
    ++earlier.num_calls;
    earlier.time_us += record.time_us;
    for (ClusterRecord& cluster : record.clusters) {
      earlier.clusters.push_back(std::move(cluster));
    }
    RemoveClustered(earlier.clusters, &earlier.left);
    return;
  }
  state.records.push_back(std::move(record));
  if (state.records.size() > kMaxRecords) {
    state.records.pop_front();
    ++state.dropped;
  }
}

std::string PassStatisticsJson() {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  JsonWriter json;
  int64_t nodes = 0, clustered = 0;
  json.BeginObject();
  json.Key("graphs").BeginArray();
  for (const GraphRecord& record : state.records) {
    WriteRecord(record, &json);
    clustered += NumClustered(record);
    nodes += NumClustered(record) + NumLeft(record);
  }
  json.EndArray();
  json.Key("nodes").Value(nodes);
  json.Key("in_clusters").Value(clustered);
  json.Key("dropped").Value(state.dropped);
  json.EndObject();
  return json.Take();
}

void ResetPassStatistics() {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  state.records.clear();
  state.dropped = 0;
}

}  // namespace tf_disc
