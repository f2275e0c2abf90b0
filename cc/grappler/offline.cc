#include "cc/grappler/offline.h"

#include <utility>

#include "cc/grappler/pass.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_disc {

absl::StatusOr<std::string> OptimizeGraph(const OfflineRequest& request) {
  tensorflow::grappler::GrapplerItem item;
  if (!item.graph.ParseFromString(request.graph)) {
    return absl::InvalidArgumentError(
        "tf_disc: optimize_graph was not given a serialised GraphDef");
  }
  item.id = request.id;
  item.fetch = request.fetches;
  for (const std::string& feed : request.feeds) {
    item.feed.emplace_back(feed, tensorflow::Tensor());
  }
  item.keep_ops = request.keep_ops;
  item.optimization_options().allow_non_differentiable_rewrites =
      request.allow_non_differentiable_rewrites;
  // It adds the devices that it understands, and calls nodes without a device
  // an error, which here they are not.
  const absl::Status devices = item.InferDevicesFromGraph();
  if (!devices.ok()) VLOG(1) << "tf_disc: " << devices;
  PassConfig config;
  config.remap = request.remap;
  tensorflow::GraphDef result;
  RunPass(item, /*cluster=*/nullptr, config, &result);
  return result.SerializeAsString();
}

}  // namespace tf_disc
