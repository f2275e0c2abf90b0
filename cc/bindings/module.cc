// tf_disc._native: what Python asks of libtf_disc.so. Only conversions live
// here; each function is one call of the library.
#include "cc/abi/kernel_abi.h"
#include "cc/bindings/bindings.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "The C++ side of tf_disc. Private: use tf_disc's own names.";
  module.attr("abi_version") = pybind11::int_(DISC_ABI_VERSION);
  tf_disc::BindOptions(module);
  tf_disc::BindPass(module);
  tf_disc::BindLaunch(module);
  tf_disc::BindReplay(module);
}
