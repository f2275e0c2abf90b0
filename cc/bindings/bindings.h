// The parts of tf_disc._native, one file each.
#ifndef TF_DISC_CC_BINDINGS_BINDINGS_H_
#define TF_DISC_CC_BINDINGS_BINDINGS_H_

#include <pybind11/pybind11.h>

#include "absl/status/status.h"

namespace tf_disc {

void BindOptions(pybind11::module_& module);
void BindPass(pybind11::module_& module);
void BindLaunch(pybind11::module_& module);
void BindReplay(pybind11::module_& module);

// Turns an error into Python's exception: ValueError for InvalidArgument, else
// RuntimeError.
inline void ThrowIfError(const absl::Status& status) {
  if (status.ok()) return;
  const std::string message = "tf_disc: " + std::string(status.message());
  if (absl::IsInvalidArgument(status)) throw pybind11::value_error(message);
  throw std::runtime_error(message);
}

}  // namespace tf_disc

#endif  // TF_DISC_CC_BINDINGS_BINDINGS_H_
