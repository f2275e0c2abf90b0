// The contract's words for element types (docs/contracts.md): DT_FLOAT <->
// "f32".
#ifndef TF_DISC_CC_BASE_DTYPE_NAMES_H_
#define TF_DISC_CC_BASE_DTYPE_NAMES_H_

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/types.pb.h"

namespace tf_disc {

// The contract's word, or an empty view for a type that no cluster handles
// (reference types included).
absl::string_view DtypeName(tensorflow::DataType dtype);

// The inverse; DT_INVALID for a word that is not in the contract.
tensorflow::DataType DtypeFromName(absl::string_view name);

}  // namespace tf_disc

#endif  // TF_DISC_CC_BASE_DTYPE_NAMES_H_
