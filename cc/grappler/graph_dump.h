// Graphs as the pass saw them and as it left them, for people and bug reports.
#ifndef TF_DISC_CC_GRAPPLER_GRAPH_DUMP_H_
#define TF_DISC_CC_GRAPPLER_GRAPH_DUMP_H_

#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tf_disc {

// The folder for dumps; empty (the default) for none. Thread-safe.
void SetGraphDumpDir(std::string dir);

// Writes `<dir>/graph_<n>_<id>/before.pbtxt` and `after.pbtxt`, n counting the
// process's dumps. OK without a folder. The error names the file.
absl::Status DumpGraphs(const std::string& id,
                        const tensorflow::GraphDef& before,
                        const tensorflow::GraphDef& after);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_GRAPH_DUMP_H_
