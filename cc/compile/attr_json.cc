#include "cc/compile/attr_json.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/base/dtype_names.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/types.h"

namespace tf_disc {
namespace {

using ::tensorflow::AttrValue;
using ::tensorflow::DataType;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShapeProto;

// A type attribute may name any type, also one that no kernel handles: the
// importer then says so with the node's name.
std::string TypeText(DataType dtype) {
  const absl::string_view name = DtypeName(dtype);
  if (!name.empty()) return std::string(name);
  return tensorflow::DataType_Name(dtype);
}

void WriteShape(const TensorShapeProto& shape, JsonWriter* json) {
  if (shape.unknown_rank()) {
    json->Null();
    return;
  }
  json->BeginArray();
  for (const auto& dim : shape.dim()) {
    if (dim.size() < 0) {
      json->Null();
    } else {
      json->Value(dim.size());
    }
  }
  json->EndArray();
}

// How many leading elements have to be written: 1 if all are the same bytes.
int64_t ElementsToWrite(const Tensor& tensor) {
  const int64_t count = tensor.NumElements();
  const auto bytes = tensor.tensor_data();
  if (count < 2) return count;
  const size_t size = bytes.size() / static_cast<size_t>(count);
  // Equal to itself moved by one element.
  const bool splat =
      std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
  return splat ? 1 : count;
}

template <typename Element, typename Written = Element>
void WriteElements(const Tensor& tensor, int64_t count, JsonWriter* json) {
  const Element* data = tensor.flat<Element>().data();
  json->BeginArray();
  for (int64_t i = 0; i < count; ++i) {
    json->Value(static_cast<Written>(data[i]));
  }
  json->EndArray();
}

absl::Status WriteFirstValues(const Tensor& tensor, int64_t count,
                              JsonWriter* json) {
  switch (tensor.dtype()) {
    case tensorflow::DT_FLOAT:
      WriteElements<float>(tensor, count, json);
      break;
    case tensorflow::DT_DOUBLE:
      WriteElements<double>(tensor, count, json);
      break;
    case tensorflow::DT_INT32:
      WriteElements<int32_t>(tensor, count, json);
      break;
    case tensorflow::DT_INT64:
      WriteElements<int64_t>(tensor, count, json);
      break;
    case tensorflow::DT_BOOL:
      WriteElements<bool>(tensor, count, json);
      break;
    case tensorflow::DT_INT8:
      WriteElements<int8_t>(tensor, count, json);
      break;
    case tensorflow::DT_UINT8:
      WriteElements<uint8_t>(tensor, count, json);
      break;
    case tensorflow::DT_INT16:
      WriteElements<int16_t>(tensor, count, json);
      break;
    case tensorflow::DT_HALF:
      WriteElements<Eigen::half, float>(tensor, count, json);
      break;
    case tensorflow::DT_BFLOAT16:
      WriteElements<Eigen::bfloat16, float>(tensor, count, json);
      break;
    default:
      return absl::UnimplementedError(absl::StrCat(
          "a constant of ", tensorflow::DataTypeString(tensor.dtype()),
          " cannot be written"));
  }
  return absl::OkStatus();
}

absl::Status WriteTensor(const tensorflow::TensorProto& proto,
                         JsonWriter* json) {
  // The dtype first: reading a tensor of strings only to refuse it is no use.
  if (DtypeName(proto.dtype()).empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "a constant of ", tensorflow::DataTypeString(proto.dtype()),
        " cannot be written"));
  }
  Tensor tensor;
  if (!tensor.FromProto(proto)) {
    return absl::InvalidArgumentError("a constant's tensor is malformed");
  }
  json->BeginObject().Key("dtype").Value(DtypeName(tensor.dtype()));
  json->Key("dims").BeginArray();
  for (int d = 0; d < tensor.dims(); ++d) json->Value(tensor.dim_size(d));
  json->EndArray().Key("values");
  const absl::Status status =
      WriteFirstValues(tensor, ElementsToWrite(tensor), json);
  if (!status.ok()) return status;
  json->EndObject();
  return absl::OkStatus();
}

absl::Status WriteList(const AttrValue::ListValue& list, absl::string_view type,
                       JsonWriter* json) {
  if (absl::StartsWith(type, "list(int")) {
    json->Key("ints").Array(list.i());
  } else if (absl::StartsWith(type, "list(float")) {
    json->Key("floats").Array(list.f());
  } else if (absl::StartsWith(type, "list(bool")) {
    json->Key("bools").BeginArray();
    for (bool b : list.b()) json->Value(b);
    json->EndArray();
  } else if (absl::StartsWith(type, "list(string")) {
    json->Key("strings").BeginArray();
    for (const auto& s : list.s()) json->Value(absl::string_view(s));
    json->EndArray();
  } else if (absl::StartsWith(type, "list(shape")) {
    json->Key("shapes").BeginArray();
    for (const TensorShapeProto& shape : list.shape()) WriteShape(shape, json);
    json->EndArray();
  } else if (absl::StartsWith(type, "list(")) {
    // list(type), also with its allowed types: list({float, int32}).
    if (list.tensor_size() > 0 || list.func_size() > 0) {
      return absl::UnimplementedError(
          absl::StrCat("an attribute of type ", type, " cannot be written"));
    }
    json->Key("types").BeginArray();
    for (int t : list.type()) json->Value(TypeText(static_cast<DataType>(t)));
    json->EndArray();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("a list where its OpDef has ", type));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteAttr(const AttrValue& attr, absl::string_view type,
                       JsonWriter* json) {
  json->BeginObject();
  absl::Status status;
  switch (attr.value_case()) {
    case AttrValue::kType:
      json->Key("type").Value(TypeText(attr.type()));
      break;
    case AttrValue::kI:
      json->Key("i").Value(attr.i());
      break;
    case AttrValue::kF:
      json->Key("f").Value(attr.f());
      break;
    case AttrValue::kB:
      json->Key("b").Value(attr.b());
      break;
    case AttrValue::kS:
      json->Key("s").Value(absl::string_view(attr.s()));
      break;
    case AttrValue::kShape:
      json->Key("shape");
      WriteShape(attr.shape(), json);
      break;
    case AttrValue::kTensor:
      json->Key("tensor");
      status = WriteTensor(attr.tensor(), json);
      break;
    case AttrValue::kList:
      status = WriteList(attr.list(), type, json);
      break;
    default:
      status = absl::UnimplementedError(
          absl::StrCat("an attribute of type ", type, " cannot be written"));
  }
  if (status.ok()) json->EndObject();
  return status;
}

absl::Status WriteValues(const Tensor& tensor, JsonWriter* json) {
  return WriteFirstValues(tensor, tensor.NumElements(), json);
}

}  // namespace tf_disc
