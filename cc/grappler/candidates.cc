#include "cc/grappler/candidates.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cc/base/dtype_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tf_disc {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::NodeDef;
using tensorflow::OpDef;

// The node's attribute, or the op's default where Grappler left it out.
const AttrValue* FindAttr(const NodeDef& node, const OpDef* op_def,
                          const std::string& name) {
  const auto found = node.attr().find(name);
  if (found != node.attr().end()) return &found->second;
  if (op_def == nullptr) return nullptr;
  for (const OpDef::AttrDef& attr : op_def->attr()) {
    if (attr.name() == name && attr.has_default_value()) {
      return &attr.default_value();
    }
  }
  return nullptr;
}

std::string DtypeText(DataType dtype) {
  const absl::string_view name = DtypeName(dtype);
  return name.empty() ? tensorflow::DataTypeString(dtype) : std::string(name);
}

std::string AttrText(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kS:
      return value.s();
    case AttrValue::kI:
      return absl::StrCat(value.i());
    case AttrValue::kF:
      return absl::StrCat(value.f());
    case AttrValue::kB:
      return value.b() ? "true" : "false";
    case AttrValue::kType:
      return DtypeText(static_cast<DataType>(value.type()));
    case AttrValue::kList: {
      std::vector<std::string> items;
      for (const std::string& s : value.list().s()) items.push_back(s);
      for (int64_t i : value.list().i()) items.push_back(absl::StrCat(i));
      for (float f : value.list().f()) items.push_back(absl::StrCat(f));
      for (bool b : value.list().b()) items.push_back(b ? "true" : "false");
      for (int t : value.list().type()) {
        items.push_back(DtypeText(static_cast<DataType>(t)));
      }
      return absl::StrCat("[", absl::StrJoin(items, ","), "]");
    }
    default:
      return "?";
  }
}

bool Contains(const std::vector<std::string>& values, absl::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// A composition is the ops that TensorFlow made it of: denying one denies it.
bool IsDenied(const NodeDef& node, const CandidatePolicy& policy) {
  if (Contains(policy.deny_ops, node.op())) return true;
  if (node.op() != "_UnaryOpsComposition") return false;
  const auto names = node.attr().find("op_names");
  if (names == node.attr().end()) return false;
  const auto& parts = names->second.list().s();
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return Contains(policy.deny_ops, part);
  });
}

// Empty if the node matches the row; else what does not.
std::string RowMismatch(const NodeDef& node, const OpDef* op_def,
                        const OpRule& rule) {
  for (const auto& [name, allowed] : rule.dtypes) {
    const AttrValue* value = FindAttr(node, op_def, name);
    if (value == nullptr) return absl::StrCat("it has no attribute ", name);
    if (value->value_case() == AttrValue::kList) {
      for (int type : value->list().type()) {
        const std::string text = DtypeText(static_cast<DataType>(type));
        if (!Contains(allowed, text)) {
          return absl::StrCat("no rule for ", name, "=", AttrText(*value));
        }
      }
    } else if (!Contains(allowed, AttrText(*value))) {
      return absl::StrCat("no rule for ", name, "=", AttrText(*value));
    }
  }
  for (const auto& [name, allowed] : rule.attrs) {
    const AttrValue* value = FindAttr(node, op_def, name);
    if (value == nullptr) return absl::StrCat("it has no attribute ", name);
    const std::string text = AttrText(*value);
    if (!Contains(allowed, text)) {
      return absl::StrCat("no rule for ", name, "=", text);
    }
  }
  return std::string();
}

bool IsTrue(const NodeDef& node, const char* attr) {
  const auto found = node.attr().find(attr);
  return found != node.attr().end() && found->second.b();
}

// Devices repeat, so each text is looked at once.
class DevicePolicy {
 public:
  explicit DevicePolicy(const CandidatePolicy& policy) : policy_(policy) {}

  const std::string& Mismatch(const std::string& device) {
    const auto [found, is_new] = known_.emplace(device, std::string());
    if (is_new) found->second = Judge(device);
    return found->second;
  }

 private:
  std::string Judge(const std::string& device) const {
    if (device.empty()) {
      return policy_.has_other_devices || !policy_.single_task
                 ? "it is not placed on a device yet and there are others "
                   "than this task's CPU"
                 : std::string();
    }
    tensorflow::DeviceNameUtils::ParsedName name;
    if (!tensorflow::DeviceNameUtils::ParseFullName(device, &name)) {
      return absl::StrCat("its device \"", device, "\" is not understood");
    }
    if (name.has_type ? name.type != "CPU" : policy_.has_other_devices) {
      return absl::StrCat("it is placed on ", device);
    }
    if (policy_.own_task.empty()) {
      return policy_.single_task
                 ? std::string()
                 : absl::StrCat("it is placed on ", device,
                                " and which task is this one is not known");
    }
    tensorflow::DeviceNameUtils::ParsedName own;
    if (tensorflow::DeviceNameUtils::ParseFullName(policy_.own_task, &own) &&
        ((name.has_job && name.job != own.job) ||
         (name.has_replica && name.replica != own.replica) ||
         (name.has_task && name.task != own.task))) {
      return absl::StrCat("it is placed on another task, ", device);
    }
    return std::string();
  }

  const CandidatePolicy& policy_;
  absl::flat_hash_map<std::string, std::string> known_;
};

bool HasRefOutput(const GraphIndex& graph, TensorRef tensor) {
  const OpDef* op_def = graph.op_def(tensor.node);
  if (op_def == nullptr) return false;
  for (const OpDef::ArgDef& arg : op_def->output_arg()) {
    if (arg.is_ref()) return true;
  }
  return false;
}

DataType ResourceOutput(const GraphIndex& graph, TensorRef tensor) {
  const OpDef* op_def = graph.op_def(tensor.node);
  if (op_def == nullptr || op_def->output_arg_size() != 1) {
    return tensorflow::DT_INVALID;
  }
  const OpDef::ArgDef& arg = op_def->output_arg(0);
  if (arg.type() != tensorflow::DT_INVALID) return arg.type();
  const AttrValue* type =
      FindAttr(graph.node(tensor.node), op_def, arg.type_attr());
  return type == nullptr ? tensorflow::DT_INVALID
                         : static_cast<DataType>(type->type());
}

std::string Reason(const GraphIndex& graph, int i, const OpTable& table,
                   const ControlFlow& flow, const CandidatePolicy& policy,
                   DevicePolicy* devices, const OpTable::Row** row) {
  const NodeDef& node = graph.node(i);
  const std::vector<OpTable::Row>* rows = table.Find(node.op());
  if (rows == nullptr) return absl::StrCat("there is no rule for ", node.op());
  const OpDef* op_def = graph.op_def(i);
  if (op_def == nullptr) return "its op is not registered";
  std::string mismatch;
  const OpTable::Row* match = nullptr;
  for (const OpTable::Row& candidate : *rows) {
    mismatch = RowMismatch(node, op_def, candidate.rule);
    if (mismatch.empty()) {
      match = &candidate;
      break;
    }
  }
  if (match == nullptr) return mismatch;
  const OpRule& rule = match->rule;
  // An op that reads a variable is stateful in TensorFlow's registry; any
  // other state has no place in a kernel.
  if (op_def->is_stateful() && rule.resources.empty()) {
    return "it has state or side effects";
  }
  if (policy.fed.contains(node.name())) return "its value is fed";
  if (IsDenied(node, policy)) return "option deny_ops names it";
  for (const std::string& pattern : policy.deny_nodes) {
    if (MatchesPattern(node.name(), pattern))
      return "option deny_nodes names it";
  }
  if (IsTrue(node, "_XlaMustCompile") || IsTrue(node, "_XlaCompile")) {
    return "it is marked for XLA";
  }
  const std::string& device = devices->Mismatch(node.device());
  if (!device.empty()) return device;
  if (flow.frame[i] < 0) return "its inputs come from different loop frames";
  const std::vector<TensorRef>& operands = graph.operands(i);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (HasRefOutput(graph, operands[k])) {
      return "it reads a reference variable, whose value may change under it";
    }
    const bool wants_handle = HasPosition(rule.resources, static_cast<int>(k),
                                          static_cast<int>(operands.size()));
    if (!wants_handle &&
        ResourceOutput(graph, operands[k]) == tensorflow::DT_RESOURCE) {
      return "it takes a resource where its rule has none";
    }
  }
  *row = match;
  return std::string();
}

// Bytes that the node's value takes in a cluster, -1 if it is no Const of a
// type that clusters hold.
int64_t ConstBytes(const NodeDef& node) {
  if (node.op() != "Const") return -1;
  const auto value = node.attr().find("value");
  if (value == node.attr().end() || !value->second.has_tensor()) return -1;
  const tensorflow::TensorProto& tensor = value->second.tensor();
  const absl::string_view name = DtypeName(tensor.dtype());
  if (name.empty() || tensor.dtype() == tensorflow::DT_RESOURCE) return -1;
  if (!tensorflow::TensorShape::IsValid(tensor.tensor_shape())) return -1;
  const int64_t size = tensorflow::DataTypeSize(tensor.dtype());
  const tensorflow::TensorShape shape(tensor.tensor_shape());
  const int64_t bytes = shape.num_elements() * size;
  // One value stands for all elements: what is stored is one value.
  const int stored = tensor.float_val_size() + tensor.double_val_size() +
                     tensor.int_val_size() + tensor.int64_val_size() +
                     tensor.bool_val_size() + tensor.half_val_size();
  if (tensor.tensor_content().empty() && stored <= 1) return size;
  if (static_cast<int64_t>(tensor.tensor_content().size()) == size) return size;
  return bytes;
}

// Elements that the compiler follows (MAX_CONTENTS of ir/builder.py).
constexpr int64_t kFollowedElements = 64;

// Whether the compiler knows the elements of a copied Const as it follows them.
bool IsFollowedConst(const NodeDef& node) {
  const auto value = node.attr().find("value");
  if (value == node.attr().end() || !value->second.has_tensor()) return false;
  const tensorflow::TensorShape shape(value->second.tensor().tensor_shape());
  return shape.dims() <= 1 && shape.num_elements() <= kFollowedElements;
}

void FindConstants(const GraphIndex& graph, Candidates* candidates) {
  candidates->constant.assign(graph.size(), false);
  for (int i : graph.order()) {
    if (!candidates->Is(i)) continue;
    const OpConstant kind = candidates->row[i]->constant;
    if (kind == OpConstant::kNo || kind == OpConstant::kSizes) continue;
    bool all = true;
    for (const TensorRef& operand : graph.operands(i)) {
      all &= candidates->copied_const[operand.node]
                 ? IsFollowedConst(graph.node(operand.node))
                 : candidates->constant[operand.node];
    }
    candidates->constant[i] = all || kind == OpConstant::kAlways;
  }
}

}  // namespace

Candidates FindCandidates(const GraphIndex& graph, const OpTable& table,
                          const ControlFlow& flow,
                          const CandidatePolicy& policy) {
  Candidates candidates;
  candidates.row.assign(graph.size(), nullptr);
  candidates.reason.resize(graph.size());
  candidates.copied_const.assign(graph.size(), false);
  DevicePolicy devices(policy);
  for (int i = 0; i < graph.size(); ++i) {
    const NodeDef& node = graph.node(i);
    if (node.op() == "Const") {
      const int64_t bytes = ConstBytes(node);
      candidates.copied_const[i] = bytes >= 0 && bytes <= kCopiedConstBytes &&
                                   !policy.fed.contains(node.name());
      continue;
    }
    candidates.reason[i] =
        Reason(graph, i, table, flow, policy, &devices, &candidates.row[i]);
  }
  FindConstants(graph, &candidates);
  return candidates;
}

bool MatchesPattern(absl::string_view text, absl::string_view pattern) {
  size_t t = 0, p = 0;
  size_t star = absl::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsOutsideCoverage(absl::string_view op) {
  return op == "_Arg" || op == "_Retval" || op == "Placeholder" ||
         op == "VarHandleOp" || op == "ReadVariableOp" || op == "Const" ||
         op == "NoOp";
}

}  // namespace tf_disc
