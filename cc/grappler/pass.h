// The pass over one graph: candidates, growth, outlining, rewrite.
#ifndef TF_DISC_CC_GRAPPLER_PASS_H_
#define TF_DISC_CC_GRAPPLER_PASS_H_

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/clusters/cluster.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace tf_disc {

struct PassConfig {
  // Whether TensorFlow's own fusions are run on what is left and on the
  // outlined functions' fallbacks.
  bool remap = true;
};

// Fills `*result` with the graph after the pass. Cannot fail: whatever goes
// wrong leaves the graph as it was and is recorded in the statistics, in words.
// `cluster` (Grappler's word for the machine) may be null. Any thread.
void RunPass(const tensorflow::grappler::GrapplerItem& item,
             const tensorflow::grappler::Cluster* cluster,
             const PassConfig& config, tensorflow::GraphDef* result);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_PASS_H_
