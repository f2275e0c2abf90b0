#include "cc/base/dtype_names.h"

namespace tf_disc {
namespace {

struct Entry {
  tensorflow::DataType dtype;
  absl::string_view name;
};

constexpr Entry kEntries[] = {
    {tensorflow::DT_FLOAT, "f32"},         {tensorflow::DT_DOUBLE, "f64"},
    {tensorflow::DT_INT32, "i32"},         {tensorflow::DT_INT64, "i64"},
    {tensorflow::DT_BOOL, "bool"},         {tensorflow::DT_INT8, "i8"},
    {tensorflow::DT_UINT8, "u8"},          {tensorflow::DT_INT16, "i16"},
    {tensorflow::DT_HALF, "f16"},          {tensorflow::DT_BFLOAT16, "bf16"},
    {tensorflow::DT_RESOURCE, "resource"},
};

}  // namespace

absl::string_view DtypeName(tensorflow::DataType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return entry.name;
  }
  return absl::string_view();
}

tensorflow::DataType DtypeFromName(absl::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.dtype;
  }
  return tensorflow::DT_INVALID;
}

}  // namespace tf_disc
