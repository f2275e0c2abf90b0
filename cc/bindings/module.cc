// tf_disc._native: what Python asks of libtf_disc.so. Only conversions live
// here; each function is one call of the library.
#include <pybind11/pybind11.h>

#include "cc/abi/kernel_abi.h"

namespace py = pybind11;

PYBIND11_MODULE(_native, module) {
  module.doc() = "The C++ side of tf_disc. Private: use tf_disc's own names.";
  module.attr("abi_version") = py::int_(DISC_ABI_VERSION);
}
