#include "cc/grappler/outline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "cc/compile/cluster_file.h"
#include "cc/grappler/remap.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"
#include "tensorflow/core/platform/hash.h"

namespace tf_disc {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::OpDef;

constexpr char kPrefix[] = "cluster_";
constexpr char kFallbackSuffix[] = "_tf";
constexpr int kHashDigits = 16;

// Grappler's MetaOptimizer optimises every function that a graph reaches, but
// for those with this attribute. Ours must stay as outlined: the compiler reads
// them at run time, and its rules know no _FusedMatMul. (The attribute means
// "tf.data has optimised this"; TF 2.21 looks at it nowhere else.)
constexpr char kKeepAsIs[] = "_tf_data_function";

// Attributes that speak of the graph around the node, not of what it computes.
bool IsLeftBehind(absl::string_view attr) {
  return attr == "_class" || attr == "_output_shapes" ||
         attr == "_user_specified_name";
}

struct Output {
  std::string name;  // "argument:index", as a FunctionDef writes it.
  DataType dtype;
};

// The flat outputs of a node as a FunctionDef names them.
absl::Status NodeOutputs(const NodeDef& node, const OpDef& op_def,
                         std::vector<Output>* outputs) {
  tensorflow::DataTypeVector dtypes;
  TF_RETURN_IF_ERROR(tensorflow::OutputTypesForNode(node, op_def, &dtypes));
  for (const OpDef::ArgDef& arg : op_def.output_arg()) {
    const int first = static_cast<int>(outputs->size());
    int count = 1;
    if (!arg.number_attr().empty()) {
      int64_t number;
      TF_RETURN_IF_ERROR(
          tensorflow::GetNodeAttr(node, arg.number_attr(), &number));
      count = static_cast<int>(number);
    } else if (!arg.type_list_attr().empty()) {
      std::vector<DataType> types;
      TF_RETURN_IF_ERROR(
          tensorflow::GetNodeAttr(node, arg.type_list_attr(), &types));
      count = static_cast<int>(types.size());
    }
    if (first + count > static_cast<int>(dtypes.size())) {
      return absl::InternalError(absl::StrCat(
          "node \"", node.name(), "\" has fewer outputs than its op says"));
    }
    for (int i = 0; i < count; ++i) {
      outputs->push_back({absl::StrCat(arg.name(), ":", i), dtypes[first + i]});
    }
  }
  return absl::OkStatus();
}

// FunctionDef argument names are [a-z][a-z0-9_]* and share one name space with
// the body's nodes.
std::string FreePrefix(absl::string_view wanted,
                       const std::vector<const NodeDef*>& nodes) {
  std::string prefix(wanted);
  for (bool taken = true; taken;) {
    taken = false;
    for (const NodeDef* node : nodes) {
      taken |= absl::StartsWith(node->name(), prefix);
    }
    if (taken) prefix += "x_";
  }
  return prefix;
}

class Outliner {
 public:
  Outliner(const OutlineContext& context, const Cluster& cluster)
      : context_(context), graph_(context.graph), cluster_(cluster) {}

  absl::StatusOr<OutlinedCluster> Run(int* remap_budget) {
    TF_RETURN_IF_ERROR(CollectBody());
    TF_RETURN_IF_ERROR(CollectOutputs());
    const GraphDef body = BodyGraph();
    TF_RETURN_IF_ERROR(MakeFunction(body, &result_.function));
    TF_RETURN_IF_ERROR(NameAndCheck(&result_.function));
    if (body.node_size() <= *remap_budget) {
      *remap_budget -= body.node_size();
      MakeFallback(body);
    }
    MakeLaunch();
    return std::move(result_);
  }

 private:
  // Numbers inputs, marks what is inside.
  absl::Status CollectBody() {
    for (int i : cluster_.members) inside_.insert(i);
    for (int i : cluster_.members) {
      for (const TensorRef& operand : graph_.operands(i)) {
        if (inside_.contains(operand.node)) continue;
        if (context_.candidates.copied_const[operand.node]) {
          inside_.insert(operand.node);
          result_.consts.push_back(operand.node);
          continue;
        }
        const auto key = std::make_pair(operand.node, operand.port);
        if (!input_index_.emplace(key, inputs_.size()).second) continue;
        inputs_.push_back(operand);
        DataType dtype;
        TF_RETURN_IF_ERROR(OutputType(operand, &dtype));
        input_types_.push_back(dtype);
      }
    }
    nodes_ = result_.consts;
    nodes_.insert(nodes_.end(), cluster_.members.begin(),
                  cluster_.members.end());
    std::vector<const NodeDef*> defs;
    for (int i : nodes_) defs.push_back(&graph_.node(i));
    input_prefix_ = FreePrefix("in_", defs);
    output_prefix_ = FreePrefix("out_", defs);
    return absl::OkStatus();
  }

  absl::Status OutputType(TensorRef tensor, DataType* dtype) const {
    const OpDef* op_def = graph_.op_def(tensor.node);
    const NodeDef& node = graph_.node(tensor.node);
    if (op_def == nullptr) {
      // A call of a library function: its users say what it gives.
      return TypeAsked(tensor, dtype);
    }
    return tensorflow::OutputTypeForNode(node, *op_def, tensor.port, dtype);
  }

  absl::Status TypeAsked(TensorRef tensor, DataType* dtype) const {
    for (const GraphIndex::Use& use : graph_.uses(tensor.node)) {
      if (use.port != tensor.port || !inside_.contains(use.node)) continue;
      return tensorflow::InputTypeForNode(
          graph_.node(use.node), *graph_.op_def(use.node), use.operand, dtype);
    }
    return absl::InternalError(absl::StrCat("the type of an output of node \"",
                                            graph_.node(tensor.node).name(),
                                            "\" is not known"));
  }

  absl::Status CollectOutputs() {
    for (int i : cluster_.members) {
      std::vector<Output> outputs;
      TF_RETURN_IF_ERROR(
          NodeOutputs(graph_.node(i), *graph_.op_def(i), &outputs));
      std::vector<bool> needed(
          outputs.size(), context_.preserved.contains(graph_.node(i).name()));
      for (const GraphIndex::Use& use : graph_.uses(i)) {
        if (inside_.contains(use.node)) continue;
        if (use.port >= static_cast<int>(outputs.size())) {
          return absl::InvalidArgumentError(absl::StrCat(
              "node \"", graph_.node(use.node).name(), "\" asks for output ",
              use.port, " of \"", graph_.node(i).name(), "\", which has ",
              outputs.size()));
        }
        needed[use.port] = true;
      }
      for (size_t port = 0; port < outputs.size(); ++port) {
        if (!needed[port]) continue;
        result_.outputs.push_back({i, static_cast<int>(port)});
        output_types_.push_back(outputs[port].dtype);
      }
    }
    if (result_.outputs.empty()) {
      return absl::InvalidArgumentError("nothing uses its outputs");
    }
    return absl::OkStatus();
  }

  std::string InputName(size_t i) const {
    return absl::StrCat(input_prefix_, i);
  }

  // The cluster as a graph: _Arg nodes, then copied Consts, then members.
  GraphDef BodyGraph() const {
    GraphDef body;
    body.mutable_versions()->set_producer(context_.producer);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      NodeDef* arg = body.add_node();
      arg->set_name(InputName(i));
      arg->set_op("_Arg");
      (*arg->mutable_attr())["T"].set_type(input_types_[i]);
      (*arg->mutable_attr())["index"].set_i(static_cast<int64_t>(i));
      *(*arg->mutable_attr())["_output_shapes"].mutable_list()->add_shape() =
          context_.shape_of(inputs_[i]);
    }
    for (int i : nodes_) {
      const NodeDef& from = graph_.node(i);
      NodeDef* node = body.add_node();
      node->set_name(from.name());
      node->set_op(from.op());
      for (const auto& [name, value] : from.attr()) {
        if (!IsLeftBehind(name)) (*node->mutable_attr())[name] = value;
      }
      if (context_.keeps_f32(from)) {
        (*node->mutable_attr())[kKeepsF32].set_b(true);
      }
      for (const TensorRef& operand : graph_.operands(i)) {
        const auto input =
            input_index_.find(std::make_pair(operand.node, operand.port));
        if (input != input_index_.end()) {
          node->add_input(InputName(input->second));
        } else if (operand.port == 0) {
          node->add_input(graph_.node(operand.node).name());
        } else {
          node->add_input(absl::StrCat(graph_.node(operand.node).name(), ":",
                                       operand.port));
        }
      }
    }
    return body;
  }

  // The function that `body` is: its _Args are the arguments, and its results
  // are the tensors named in result_.outputs.
  absl::Status MakeFunction(const GraphDef& body, FunctionDef* function) const {
    OpDef* signature = function->mutable_signature();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      OpDef::ArgDef* arg = signature->add_input_arg();
      arg->set_name(InputName(i));
      arg->set_type(input_types_[i]);
    }
    absl::flat_hash_map<std::string, std::vector<Output>> outputs;
    bool is_stateful = false;
    for (const NodeDef& node : body.node()) {
      if (node.op() == "_Arg") continue;
      const OpDef* op_def = nullptr;
      TF_RETURN_IF_ERROR(
          tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op_def));
      is_stateful |= op_def->is_stateful();
      TF_RETURN_IF_ERROR(NodeOutputs(node, *op_def, &outputs[node.name()]));
    }
    const auto tensor_name = [&](absl::string_view name, int port,
                                 std::string* text) {
      const auto found = outputs.find(name);
      if (found == outputs.end()) {
        *text = std::string(name);  // An argument.
        return absl::OkStatus();
      }
      if (port >= static_cast<int>(found->second.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("node \"", name, "\" has no output ", port));
      }
      *text = absl::StrCat(name, ":", found->second[port].name);
      return absl::OkStatus();
    };
    for (const NodeDef& from : body.node()) {
      if (from.op() == "_Arg") continue;
      NodeDef* node = function->add_node_def();
      *node = from;
      for (std::string& text : *node->mutable_input()) {
        const tf_disc::InputName input = ParseInputName(text);
        if (input.port < 0) continue;
        std::string name;
        TF_RETURN_IF_ERROR(tensor_name(input.node, input.port, &name));
        text = std::move(name);
      }
    }
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      OpDef::ArgDef* arg = signature->add_output_arg();
      arg->set_name(absl::StrCat(output_prefix_, i));
      arg->set_type(output_types_[i]);
      const TensorRef& tensor = result_.outputs[i];
      TF_RETURN_IF_ERROR(tensor_name(graph_.node(tensor.node).name(),
                                     tensor.port,
                                     &(*function->mutable_ret())[arg->name()]));
    }
    signature->set_is_stateful(is_stateful);
    (*function->mutable_attr())[kKeepAsIs].set_b(true);
    return absl::OkStatus();
  }

  // A function that TensorFlow cannot instantiate would be the user's error,
  // with no way back, so it is tried here.
  absl::Status Check(const FunctionDef& function) const {
    tensorflow::FunctionLibraryDefinition library(
        tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary());
    TF_RETURN_IF_ERROR(library.AddFunctionDef(function));
    std::unique_ptr<tensorflow::FunctionBody> unused;
    return tensorflow::FunctionDefToBodyHelper(
        function, tensorflow::AttrSlice(), &library, &unused);
  }

  absl::Status NameAndCheck(FunctionDef* function) const {
    std::string bytes;
    if (!tensorflow::SerializeToStringDeterministic(*function, &bytes)) {
      return absl::InternalError("its function cannot be serialised");
    }
    function->mutable_signature()->set_name(
        absl::StrFormat("%s%016x", kPrefix, tensorflow::Hash64(bytes)));
    return Check(*function);
  }

  // A fallback is a matter of speed: without one, calls that have no kernel
  // run the function as it is.
  void MakeFallback(const GraphDef& body) {
    std::vector<std::string> fetch;
    for (const TensorRef& tensor : result_.outputs) {
      fetch.push_back(graph_.node(tensor.node).name());
    }
    for (size_t i = 0; i < inputs_.size(); ++i) fetch.push_back(InputName(i));
    // The remapper looks at nodes that it knows to be on a CPU only; a
    // function's nodes are placed where it is run.
    GraphDef placed = body;
    for (NodeDef& node : *placed.mutable_node()) {
      node.set_device("/device:CPU:0");
    }
    GraphDef remapped;
    if (!RemapGraph(std::move(placed), fetch, &remapped)) return;
    for (NodeDef& node : *remapped.mutable_node()) node.clear_device();
    FunctionDef fallback;
    if (!MakeFunction(remapped, &fallback).ok()) return;
    fallback.mutable_signature()->set_name(
        absl::StrCat(result_.function.signature().name(), kFallbackSuffix));
    if (!Check(fallback).ok()) return;
    result_.fallback = std::move(fallback);
  }

  // Whether an op inside the cluster has the tensor at one of its `positions`,
  // seen through Identity nodes; where a value is asked for, through all that
  // it is computed of.
  bool AskedFor(TensorRef tensor, const std::vector<int> OpRule::* positions,
                bool through_identity) const {
    for (const GraphIndex::Use& use : graph_.uses(tensor.node)) {
      if (use.port != tensor.port || !context_.candidates.Is(use.node) ||
          !inside_.contains(use.node)) {
        continue;
      }
      const OpRule& rule = context_.candidates.row[use.node]->rule;
      const int count = static_cast<int>(graph_.operands(use.node).size());
      if (HasPosition(rule.*positions, use.operand, count)) return true;
      const bool hands_on =
          rule.op == "Identity" ||
          (positions == &OpRule::by_value &&
           context_.candidates.constant[use.node] &&
           context_.candidates.row[use.node]->constant == OpConstant::kFolds);
      if (through_identity && hands_on &&
          AskedFor({use.node, 0}, positions, true)) {
        return true;
      }
    }
    return false;
  }

  void MakeLaunch() {
    NodeDef& launch = result_.launch;
    launch.set_op("DiscLaunch");
    auto& attrs = *launch.mutable_attr();
    auto* tin = attrs["Tin"].mutable_list();
    auto* input_shapes = attrs["input_shapes"].mutable_list();
    auto* const_operands = attrs["const_operands"].mutable_list();
    auto* length_operands = attrs["length_operands"].mutable_list();
    auto* weight_operands = attrs["weight_operands"].mutable_list();
    auto* constant_weights = attrs["constant_weights"].mutable_list();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorRef input = inputs_[i];
      const int64_t number = static_cast<int64_t>(i);
      tin->add_type(input_types_[i]);
      *input_shapes->add_shape() = context_.shape_of(input);
      if (AskedFor(input, &OpRule::by_value, true))
        const_operands->add_i(number);
      if (AskedFor(input, &OpRule::by_length, true)) {
        length_operands->add_i(number);
      }
      if (AskedFor(input, &OpRule::weights, true) &&
          context_.weights.IsWeight(input)) {
        weight_operands->add_i(number);
        if (context_.weights.IsConstant(input)) constant_weights->add_i(number);
      }
      const std::string& name = graph_.node(input.node).name();
      launch.add_input(input.port == 0 ? name
                                       : absl::StrCat(name, ":", input.port));
    }
    auto* tout = attrs["Tout"].mutable_list();
    auto* output_shapes = attrs["output_shapes"].mutable_list();
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      tout->add_type(output_types_[i]);
      *output_shapes->add_shape() = context_.shape_of(result_.outputs[i]);
    }
    const std::string& name = result_.function.signature().name();
    attrs["cluster"].mutable_func()->set_name(name);
    attrs["cluster_id"].set_s(name);
    attrs["options"].set_s(context_.options);
    attrs["artifact"].set_s("");
    if (!result_.fallback.signature().name().empty()) {
      attrs["_disc_fallback"].mutable_func()->set_name(
          result_.fallback.signature().name());
    }
  }

  const OutlineContext& context_;
  const GraphIndex& graph_;
  const Cluster& cluster_;

  absl::flat_hash_set<int> inside_;
  std::vector<int> nodes_;  // Copied Consts, then members.
  std::vector<TensorRef> inputs_;
  std::vector<DataType> input_types_;
  absl::flat_hash_map<std::pair<int, int>, size_t> input_index_;
  std::vector<DataType> output_types_;
  std::string input_prefix_;
  std::string output_prefix_;
  OutlinedCluster result_;
};

}  // namespace

absl::StatusOr<OutlinedCluster> OutlineCluster(const OutlineContext& context,
                                               const Cluster& cluster,
                                               int* remap_budget) {
  return Outliner(context, cluster).Run(remap_budget);
}

bool IsOutlinedFunctionName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kPrefix)) return false;
  absl::ConsumeSuffix(&name, kFallbackSuffix);
  return name.size() == kHashDigits &&
         name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace tf_disc
