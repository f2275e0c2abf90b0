// Functions that tf.data runs. Their threads must never wait for a compile.
#ifndef TF_DISC_CC_GRAPPLER_TF_DATA_H_
#define TF_DISC_CC_GRAPPLER_TF_DATA_H_

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/function.pb.h"

namespace tf_disc {

// Whether the function is a tf.data function itself: by the name that tf.data
// gives it, or by its attribute in `library`. The pass skips it.
bool IsTfDataFunction(absl::string_view name,
                      const tensorflow::FunctionDefLibrary& library);

// Functions that a tf.data function calls reach the pass under any name, later.
// All functions of the library of a tf.data function, and all that are marked
// in any library, are remembered for the process.
void RememberTfDataFunctions(absl::string_view graph,
                             const tensorflow::FunctionDefLibrary& library);

// Whether the function was remembered: it is compiled in async mode only.
bool IsCalledFromTfData(absl::string_view name);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_TF_DATA_H_
