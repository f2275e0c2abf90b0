// Attribute values and tensors as the JSON of cluster files (docs/contracts.md
// 3).
#ifndef TF_DISC_CC_COMPILE_ATTR_JSON_H_
#define TF_DISC_CC_COMPILE_ATTR_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/base/json_writer.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_disc {

// Writes one value, `{"i": 3}`. `type` is the attribute's type in its OpDef
// ("list(int)"), which tells what an empty list is a list of. Unimplemented for
// functions, placeholders and tensors of other dtypes than the contract's.
absl::Status WriteAttr(const tensorflow::AttrValue& attr,
                       absl::string_view type, JsonWriter* json);

// Writes all elements as an array; half floats and bfloat16 as the f32 of equal
// value. Unimplemented for dtypes outside the contract.
absl::Status WriteValues(const tensorflow::Tensor& tensor, JsonWriter* json);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_ATTR_JSON_H_
