// TensorFlow's own pattern fusions (_FusedMatMul and alike) for what tf_disc
// does not compile. The pass turns Grappler's remapper off, to see the graph
// before it, and owes the rest of the graph its work.
#ifndef TF_DISC_CC_GRAPPLER_REMAP_H_
#define TF_DISC_CC_GRAPPLER_REMAP_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace tf_disc {

// Remaps `graph` of `item` (item.graph itself is not looked at). False, and
// `*remapped` unset, if nothing changed or the remapper failed.
bool RemapItem(const tensorflow::grappler::GrapplerItem& item,
               tensorflow::GraphDef graph, tensorflow::GraphDef* remapped);

// The same for a graph by itself, of which the nodes in `fetch` stay.
bool RemapGraph(tensorflow::GraphDef graph,
                const std::vector<std::string>& fetch,
                tensorflow::GraphDef* remapped);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_REMAP_H_
