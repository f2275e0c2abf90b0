// Our deadness analysis against the one of TensorFlow's XLA bridge: nodes that
// ours calls "always dead together" must be so there. Graphs of conds only: in
// loops TensorFlow's is less exact than ours, whose answers there are tested by
// running random graphs (tests/grappler/test_control_flow.py).
#include "cc/grappler/deadness.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cc/grappler/graph_index.h"
#include "cc/testing/check.h"
#include "tensorflow/compiler/jit/deadness_analysis.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_disc {
namespace {

constexpr int kNumGraphs = 24;

// A folder with kNumGraphs graphs, made by Python.
std::string MakeGraphs() {
  char folder[] = "/tmp/tf_disc_deadness_XXXXXX";
  if (mkdtemp(folder) == nullptr) return std::string();
  const std::string command = std::string(
                                  "${TF_DISC_TEST_PYTHON:-python3} "
                                  "cc/grappler/tests/control_flow_graphs.py ") +
                              folder + " " + std::to_string(kNumGraphs) +
                              " 2>/dev/null";
  return std::system(command.c_str()) == 0 ? folder : std::string();
}

struct Comparison {
  int nodes = 0;
  int agreeing = 0;   // Groups of ours that have one predicate there.
  int differing = 0;  // Groups of ours that have several.
};

void Compare(const tensorflow::GraphDef& graph_def, Comparison* comparison) {
  GraphIndex index;
  ASSERT(GraphIndex::Build(graph_def, &index).ok());
  const ControlFlow flow = AnalyzeControlFlow(index);
  tensorflow::Graph graph(tensorflow::OpRegistry::Global());
  ASSERT(tensorflow::ConvertGraphDefToGraph(
             tensorflow::GraphConstructorOptions(), graph_def, &graph)
             .ok());
  std::unique_ptr<tensorflow::DeadnessAnalysis> oracle;
  ASSERT(tensorflow::DeadnessAnalysis::Run(graph, &oracle).ok());
  std::map<std::pair<int, int>, std::map<std::string, std::string>> groups;
  for (tensorflow::Node* node : graph.op_nodes()) {
    const int i = index.Find(node->name());
    // A Switch has no predicate of its own there, only its outputs have.
    if (node->num_outputs() == 0 || node->IsSwitch()) continue;
    const auto predicate = oracle->GetPredicateFor(node, 0);
    ASSERT(predicate.ok());
    groups[{flow.frame[i], flow.predicate[i]}].emplace(
        oracle->DebugString(*predicate), node->name());
    ++comparison->nodes;
  }
  for (const auto& [key, predicates] : groups) {
    if (predicates.size() == 1) {
      ++comparison->agreeing;
      continue;
    }
    ++comparison->differing;
    if (std::getenv("TF_DISC_TEST_VERBOSE") == nullptr) continue;
    std::printf("frame %d predicate %d:\n", key.first, key.second);
    for (const auto& [text, name] : predicates) {
      std::printf("  %s: %s\n", name.c_str(), text.c_str());
    }
  }
}

TEST(NodesOfOnePredicateHaveOnePredicateInTensorFlow) {
  const std::string folder = MakeGraphs();
  ASSERT(!folder.empty());
  Comparison comparison;
  for (int seed = 0; seed < kNumGraphs; ++seed) {
    tensorflow::GraphDef graph;
    std::ifstream file(folder + "/" + std::to_string(seed) + ".pb",
                       std::ios::binary);
    ASSERT(graph.ParseFromIstream(&file));
    Compare(graph, &comparison);
  }
  EXPECT(std::system(("rm -r " + folder).c_str()) == 0);
  EXPECT(comparison.nodes > 1000);
  EXPECT(comparison.agreeing > 100);
  EXPECT_EQ(comparison.differing, 0);
}

}  // namespace
}  // namespace tf_disc
