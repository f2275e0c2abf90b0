#include "cc/grappler/remap.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/optimizers/remapper.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_disc {
namespace {

// Every pattern that pays has one of these at its root or in it; without any,
// the remapper's own index of the graph (20 us a node) is not worth making.
bool HasPatternRoot(const tensorflow::GraphDef& graph) {
  for (const tensorflow::NodeDef& node : graph.node()) {
    const absl::string_view op = node.op();
    if (op == "MatMul" || op == "Einsum" ||
        absl::StartsWith(op, "BatchMatMul") || absl::StrContains(op, "Conv") ||
        absl::StartsWith(op, "FusedBatchNorm")) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool RemapItem(const tensorflow::grappler::GrapplerItem& item,
               tensorflow::GraphDef graph, tensorflow::GraphDef* remapped) {
  if (!HasPatternRoot(graph)) return false;
  const tensorflow::grappler::GrapplerItem with_graph =
      item.WithGraph(std::move(graph));
  tensorflow::GraphDef result;
  const absl::Status status =
      tensorflow::grappler::Remapper(tensorflow::RewriterConfig::ON)
          .Optimize(/*cluster=*/nullptr, with_graph, &result);
  if (!status.ok()) {
    VLOG(1) << "tf_disc: Grappler's remapper failed on \"" << item.id
            << "\", which stays without its fusions: " << status;
    return false;
  }
  // It hands back an empty or a shortened graph on some early exits.
  if (result.node_size() == 0) return false;
  *remapped = std::move(result);
  return true;
}

bool RemapGraph(tensorflow::GraphDef graph,
                const std::vector<std::string>& fetch,
                tensorflow::GraphDef* remapped) {
  tensorflow::grappler::GrapplerItem item;
  item.id = "cluster";
  item.fetch = fetch;
  if (!RemapItem(item, std::move(graph), remapped)) return false;
  for (const tensorflow::NodeDef& node : remapped->node()) {
    if (absl::StartsWith(node.op(), "_Fused") ||
        absl::StartsWith(node.op(), "_Mkl")) {
      return true;
    }
  }
  return false;
}

}  // namespace tf_disc
