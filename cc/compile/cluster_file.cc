#include "cc/compile/cluster_file.h"

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cc/base/dtype_names.h"
#include "cc/base/json_writer.h"
#include "cc/compile/attr_json.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tf_disc {
namespace {

using ::tensorflow::FunctionDef;
using ::tensorflow::NodeDef;
using ::tensorflow::OpDef;

// One tensor: input `index` of the cluster, or output `output` of node `index`.
struct Source {
  bool is_input = false;
  int index = 0;
  int output = 0;
};

struct Node {
  NodeDef def;  // with default attributes
  const OpDef* op = nullptr;
  std::map<std::string, std::pair<int, int>> outputs;  // arg -> [begin, end)
  std::vector<Source> inputs;
};

absl::Status AtNode(const NodeDef& node, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("node ", node.name(), " (", node.op(),
                                   "): ", status.message()));
}

class Reader {
 public:
  Reader(const FunctionDef& function,
         const tensorflow::OpRegistryInterface& ops)
      : function_(function), ops_(ops) {}

  absl::Status Read() {
    const auto& arguments = function_.signature().input_arg();
    for (int i = 0; i < arguments.size(); ++i) {
      input_index_[arguments[i].name()] = i;
    }
    nodes_.resize(function_.node_def_size());
    for (int i = 0; i < function_.node_def_size(); ++i) {
      const NodeDef& def = function_.node_def(i);
      const absl::Status status = ReadNode(def, &nodes_[i]);
      if (!status.ok()) return AtNode(def, status);
      node_index_[def.name()] = i;
    }
    for (Node& node : nodes_) {
      for (const std::string& text : node.def.input()) {
        if (absl::StartsWith(text, "^")) continue;
        absl::StatusOr<Source> source = Find(text);
        if (!source.ok()) return AtNode(node.def, source.status());
        node.inputs.push_back(*source);
      }
    }
    for (const auto& output : function_.signature().output_arg()) {
      const auto found = function_.ret().find(output.name());
      if (found == function_.ret().end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the function returns nothing for its output ", output.name()));
      }
      absl::StatusOr<Source> source = Find(found->second);
      if (!source.ok()) return source.status();
      outputs_.push_back(*source);
    }
    return Sort();
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& order() const { return order_; }
  const std::vector<Source>& outputs() const { return outputs_; }

 private:
  absl::Status ReadNode(const NodeDef& def, Node* node) {
    absl::Status status = ops_.LookUpOpDef(def.op(), &node->op);
    if (!status.ok()) return status;
    node->def = def;
    tensorflow::AddDefaultsToNodeDef(*node->op, &node->def);
    tensorflow::NameRangeMap ranges;
    status =
        tensorflow::NameRangesForNode(node->def, *node->op, nullptr, &ranges);
    if (!status.ok()) return status;
    for (const auto& [name, range] : ranges) {
      node->outputs[std::string(name)] = range;
    }
    return absl::OkStatus();
  }

  // `x` (an argument) or `node:arg:k`.
  absl::StatusOr<Source> Find(const std::string& text) const {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    if (parts.size() == 1 || (parts.size() == 2 && parts[1] == "0")) {
      const auto argument = input_index_.find(parts[0]);
      if (argument != input_index_.end()) {
        return Source{true, argument->second, 0};
      }
    }
    const auto node = node_index_.find(parts[0]);
    int k = 0;
    if (parts.size() != 3 || node == node_index_.end() ||
        !absl::SimpleAtoi(parts[2], &k) || k < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" names no argument and no output"));
    }
    const auto& outputs = nodes_[node->second].outputs;
    const auto range = outputs.find(parts[1]);
    if (range == outputs.end() ||
        range->second.first + k >= range->second.second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\" is no output of ", nodes_[node->second].def.op()));
    }
    return Source{false, node->second, range->second.first + k};
  }

  // Kahn's algorithm; among nodes that are ready the one that the function
  // lists first, so that equal functions give equal files.
  absl::Status Sort() {
    std::vector<int> waiting(nodes_.size(), 0);
    std::vector<std::vector<int>> users(nodes_.size());
    std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Source& source : nodes_[i].inputs) {
        if (source.is_input) continue;
        users[source.index].push_back(static_cast<int>(i));
        ++waiting[i];
      }
      if (waiting[i] == 0) ready.push(static_cast<int>(i));
    }
    while (!ready.empty()) {
      const int node = ready.top();
      ready.pop();
      order_.push_back(node);
      for (int user : users[node]) {
        if (--waiting[user] == 0) ready.push(user);
      }
    }
    if (order_.size() != nodes_.size()) {
      return absl::InvalidArgumentError("the function has a cycle");
    }
    return absl::OkStatus();
  }

  const FunctionDef& function_;
  const tensorflow::OpRegistryInterface& ops_;
  absl::flat_hash_map<std::string, int> input_index_;
  absl::flat_hash_map<std::string, int> node_index_;
  std::vector<Node> nodes_;
  std::vector<int> order_;
  std::vector<Source> outputs_;
};

class Writer {
 public:
  // `for_key`: numbers for names, no sizes.
  Writer(const FunctionDef& function, absl::Span<const ClusterInput> inputs,
         const Reader& reader, bool for_key)
      : function_(function),
        inputs_(inputs),
        reader_(reader),
        for_key_(for_key),
        position_(reader.nodes().size()) {
    for (size_t i = 0; i < reader.order().size(); ++i) {
      position_[reader.order()[i]] = static_cast<int>(i);
    }
  }

  absl::StatusOr<std::string> Write() {
    json_.BeginObject().Key("version").Value(1);
    if (!for_key_) json_.Key("name").Value(function_.signature().name());
    json_.Key("inputs").BeginArray();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const absl::Status status = WriteInput(static_cast<int>(i));
      if (!status.ok()) return status;
    }
    json_.EndArray().Key("nodes").BeginArray();
    for (int index : reader_.order()) {
      const absl::Status status = WriteNode(index);
      if (!status.ok()) return AtNode(reader_.nodes()[index].def, status);
    }
    json_.EndArray().Key("outputs").BeginArray();
    for (const Source& source : reader_.outputs()) json_.Value(Text(source));
    json_.EndArray().EndObject();
    return json_.Take();
  }

 private:
  std::string InputName(int i) const {
    if (for_key_) return absl::StrCat("i", i);
    return function_.signature().input_arg(i).name();
  }

  std::string NodeName(int index) const {
    if (for_key_) return absl::StrCat("n", position_[index]);
    return reader_.nodes()[index].def.name();
  }

  std::string Text(const Source& source) const {
    if (source.is_input) return InputName(source.index);
    return absl::StrCat(NodeName(source.index), ":", source.output);
  }

  absl::Status WriteInput(int i) {
    const ClusterInput& input = inputs_[i];
    json_.BeginObject().Key("name").Value(InputName(i));
    json_.Key("dtype").Value(DtypeName(input.dtype));
    json_.Key("kind").Value(InputKindName(input.kind));
    json_.Key("dims").BeginArray();
    for (int64_t dim : input.dims) {
      if (dim < 0) {
        json_.Null();
      } else {
        json_.Value(dim);
      }
    }
    json_.EndArray();
    if (!for_key_) json_.Key("sizes").Array(input.sizes);
    if (input.kind == InputKind::kConst) {
      json_.Key("value");
      const absl::Status status = WriteValues(input.value, &json_);
      if (!status.ok()) return status;
    }
    if (!for_key_ && input.kind == InputKind::kTensor &&
        (input.value.dtype() == tensorflow::DT_INT32 ||
         input.value.dtype() == tensorflow::DT_INT64)) {
      json_.Key("values");
      const absl::Status status = WriteValues(input.value, &json_);
      if (!status.ok()) return status;
    }
    json_.EndObject();
    return absl::OkStatus();
  }

  absl::Status WriteNode(int index) {
    const Node& node = reader_.nodes()[index];
    json_.BeginObject().Key("name").Value(NodeName(index));
    json_.Key("op").Value(node.def.op());
    json_.Key("inputs").BeginArray();
    for (const Source& source : node.inputs) json_.Value(Text(source));
    json_.EndArray().Key("attrs").BeginObject();
    // A protobuf map has no order of its own.
    std::map<std::string, const tensorflow::AttrValue*> attrs;
    for (const auto& [name, value] : node.def.attr()) {
      if (!absl::StartsWith(name, "_") || name == kKeepsF32) {
        attrs[name] = &value;
      }
    }
    for (const auto& [name, value] : attrs) {
      std::string type;
      for (const OpDef::AttrDef& attr : node.op->attr()) {
        if (attr.name() == name) type = attr.type();
      }
      json_.Key(name);
      const absl::Status status = WriteAttr(*value, type, &json_);
      if (!status.ok()) {
        return absl::Status(
            status.code(),
            absl::StrCat("attribute ", name, ": ", status.message()));
      }
    }
    json_.EndObject().EndObject();
    return absl::OkStatus();
  }

  const FunctionDef& function_;
  const absl::Span<const ClusterInput> inputs_;
  const Reader& reader_;
  const bool for_key_;
  std::vector<int> position_;  // of each node in the file
  JsonWriter json_;
};

}  // namespace

absl::StatusOr<ClusterFile> WriteClusterFile(
    const FunctionDef& function, absl::Span<const ClusterInput> inputs,
    const tensorflow::OpRegistryInterface& ops) {
  if (function.signature().input_arg_size() !=
      static_cast<int>(inputs.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the function takes ", function.signature().input_arg_size(),
        " arguments, the node has ", inputs.size(), " inputs"));
  }
  Reader reader(function, ops);
  const absl::Status status = reader.Read();
  if (!status.ok()) return status;
  absl::StatusOr<std::string> json =
      Writer(function, inputs, reader, /*for_key=*/false).Write();
  if (!json.ok()) return json.status();
  absl::StatusOr<std::string> key =
      Writer(function, inputs, reader, /*for_key=*/true).Write();
  if (!key.ok()) return key.status();
  return ClusterFile{*std::move(json), *std::move(key)};
}

}  // namespace tf_disc
