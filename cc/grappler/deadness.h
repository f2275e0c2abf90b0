// When is a node dead? TensorFlow's executor kills what lies behind the branch
// of a Switch that was not taken, and a node with any dead input is dead. Two
// nodes may share a launch only if they are always dead together; otherwise one
// of them would run, or not run, against the program.
//
// Each node gets a predicate: a set of literals that all must hold for it to be
// alive. Equal sets mean "always dead together"; different sets mean nothing,
// so what is not understood gets a literal of its own.
#ifndef TF_DISC_CC_GRAPPLER_DEADNESS_H_
#define TF_DISC_CC_GRAPPLER_DEADNESS_H_

#include <vector>

#include "cc/grappler/graph_index.h"

namespace tf_disc {

struct ControlFlow {
  // By node. Equal numbers: always dead together. 0: never dead.
  std::vector<int> predicate;
  // By node. The loop frame; 0 is the outermost. -1: its inputs come from
  // different frames.
  std::vector<int> frame;
};

ControlFlow AnalyzeControlFlow(const GraphIndex& graph);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_DEADNESS_H_
