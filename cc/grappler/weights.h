// Which tensors are weights: values that stay the same from call to call and
// whose change shows in a new buffer, so that a packed copy may be kept
// (DESIGN's identity rule).
#ifndef TF_DISC_CC_GRAPPLER_WEIGHTS_H_
#define TF_DISC_CC_GRAPPLER_WEIGHTS_H_

#include "absl/container/flat_hash_set.h"
#include "cc/grappler/graph_index.h"
#include "tensorflow/core/framework/function.pb.h"

namespace tf_disc {

class WeightFinder {
 public:
  // `fed`: nodes whose outputs a session replaces.
  WeightFinder(const GraphIndex& graph,
               const tensorflow::FunctionDefLibrary& library,
               const absl::flat_hash_set<std::string>& fed);

  // A Const, or what a ReadVariableOp gives; never an argument, a fed value, a
  // Placeholder or a reference variable. Ops that hand on their input's buffer
  // are looked through.
  bool IsWeight(TensorRef tensor) const { return Source(tensor) >= 0; }
  // A weight that is a Const: no call ever has another.
  bool IsConstant(TensorRef tensor) const;

 private:
  // The node that a weight comes from; -1 if it is no weight.
  int Source(TensorRef tensor) const;

  const GraphIndex& graph_;
  const absl::flat_hash_set<std::string>& fed_;
  // An Inplace* op writes into a buffer that it did not make. Which variable
  // it came from cannot be told in general, so one of them ends all weights.
  bool has_inplace_ops_ = false;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_WEIGHTS_H_
