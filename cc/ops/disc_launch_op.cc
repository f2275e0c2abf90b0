// The DiscLaunch op: one outlined cluster. docs/contracts.md 2 lists what each
// attribute means.
//
// It is not stateful. A launch is a pure function of its inputs, and a stateful
// one would do harm: DirectSession keeps stateful kernels by node name across
// the different graphs of one session (OpSegment), and function inlining and
// pruning keep stateful nodes that nothing uses. What statelessness lets
// Grappler do on its second iteration is harmless by these rules:
//   - constant folding evaluates a launch whose inputs are all Const: the pass
//     places no such launch, and the kernel refuses to run without a function
//     library, which folding takes as "leave the node";
//   - CSE merges launches that are equal in function, inputs and control
//     inputs, which gives the same values. A launch that reads a variable
//     carries `_disc_reads` with its own name, so two reads are never merged.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_disc {
namespace {

// Outputs have the shapes that the pass recorded; unknown where it recorded
// none or another number of them.
absl::Status LaunchShapes(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  if (static_cast<int>(shapes.size()) != c->num_outputs()) {
    return tensorflow::shape_inference::UnknownShape(c);
  }
  for (int i = 0; i < c->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("DiscLaunch")
    .Input("args: Tin")
    .Output("results: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 1")
    .Attr("cluster: func")
    .Attr("cluster_id: string")
    .Attr("const_operands: list(int) = []")
    .Attr("length_operands: list(int) = []")
    .Attr("weight_operands: list(int) = []")
    .Attr("constant_weights: list(int) = []")
    .Attr("input_shapes: list(shape) = []")
    .Attr("output_shapes: list(shape) = []")
    .Attr("options: string = ''")
    .Attr("artifact: string = ''")
    .SetShapeFn(LaunchShapes)
    .Doc(R"doc(
Runs one cluster with a kernel that was compiled for it, or its outlined
function while there is none. Placed by tf_disc's Grappler pass.

args: The cluster's inputs, weights and variable handles included.
results: What running `cluster` on `args` gives.
cluster: The outlined function.
cluster_id: The function's name, `cluster_` and 16 hex digits of its content.
const_operands: Inputs whose value is part of the signature.
length_operands: Integer inputs whose sizes are part of it.
weight_operands: Inputs that hold weights; their shape is part of it.
constant_weights: Those of them that are Consts.
input_shapes: What was known of the inputs' shapes.
output_shapes: What was known of the outputs' shapes.
options: `name=value` pairs joined by `;`.
artifact: Empty, or shipped artifacts.
)doc");

}  // namespace tf_disc
