// NumPy's .npy format, version 1.0, for dumps that Python reads.
#ifndef TF_DISC_CC_OPS_NPY_FILE_H_
#define TF_DISC_CC_OPS_NPY_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_disc {

// The bytes of a .npy file. bfloat16, which NumPy lacks, is written as uint16.
// Unimplemented for dtypes outside the contract.
absl::StatusOr<std::string> EncodeNpy(const tensorflow::Tensor& tensor);

}  // namespace tf_disc

#endif  // TF_DISC_CC_OPS_NPY_FILE_H_
