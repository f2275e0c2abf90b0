#include <pybind11/stl.h>

#include "cc/base/options.h"
#include "cc/bindings/bindings.h"

namespace py = pybind11;

namespace tf_disc {

void BindOptions(py::module_& module) {
  module.def(
      "set_option",
      [](const std::string& name, const std::string& value) {
        SetOption(name, value);
      },
      py::arg("name"), py::arg("value"));
  module.def("current_options", &CurrentOptions);
}

}  // namespace tf_disc
