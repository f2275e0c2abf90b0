#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>

#include "cc/bindings/bindings.h"
#include "cc/bindings/replay.h"
#include "cc/runtime/cpu_features.h"

namespace py = pybind11;

namespace tf_disc {
namespace {

struct NumpyName {
  disc_dtype dtype;
  const char* numpy;
};

// bf16 and f16 cross as NumPy has them: bf16, which it lacks, as uint16.
constexpr NumpyName kNames[] = {{DISC_F32, "float32"}, {DISC_F64, "float64"},
                                {DISC_I32, "int32"},   {DISC_I64, "int64"},
                                {DISC_BOOL, "bool"},   {DISC_I8, "int8"},
                                {DISC_U8, "uint8"},    {DISC_I16, "int16"},
                                {DISC_F16, "float16"}, {DISC_BF16, "uint16"}};

disc_dtype DtypeOf(const py::array& array) {
  for (const NumpyName& name : kNames) {
    if (array.dtype().is(py::dtype(name.numpy))) return name.dtype;
  }
  throw py::value_error("tf_disc: no kernel takes arrays of " +
                        py::str(array.dtype()).cast<std::string>());
}

ReplayTensor TensorOf(const py::array& array) {
  const py::array dense =
      py::array::ensure(array, py::array::c_style | py::array::forcecast);
  return {DtypeOf(dense),
          {dense.shape(), dense.shape() + dense.ndim()},
          std::string(static_cast<const char*>(dense.data()),
                      static_cast<size_t>(dense.nbytes()))};
}

py::array ArrayOf(const ReplayTensor& tensor) {
  for (const NumpyName& name : kNames) {
    if (name.dtype != tensor.dtype) continue;
    py::array array(py::dtype(name.numpy), tensor.dims);
    std::memcpy(array.mutable_data(), tensor.bytes.data(), tensor.bytes.size());
    return array;
  }
  throw py::value_error("tf_disc: a kernel gave a tensor of unknown dtype");
}

std::vector<py::array> RunArtifact(const std::string& manifest,
                                   const py::bytes& object,
                                   const std::vector<py::array>& inputs) {
  const absl::StatusOr<std::shared_ptr<const Executable>> executable =
      Executable::Load(manifest, std::string(object));
  ThrowIfError(executable.status());
  std::vector<ReplayTensor> tensors;
  for (const py::array& input : inputs) tensors.push_back(TensorOf(input));
  absl::StatusOr<std::vector<ReplayTensor>> outputs;
  {
    py::gil_scoped_release released;
    outputs = Replay(**executable, tensors);
  }
  ThrowIfError(outputs.status());
  std::vector<py::array> arrays;
  for (const ReplayTensor& output : *outputs) {
    arrays.push_back(ArrayOf(output));
  }
  return arrays;
}

}  // namespace

void BindReplay(py::module_& module) {
  module.def("run_artifact", &RunArtifact,
             "Runs a kernel once, on this thread, on NumPy arrays.",
             py::arg("manifest"), py::arg("object"), py::arg("inputs"));
  module.def(
      "host_target",
      [] { return std::make_pair(HostCpu().target, HostCpu().features); },
      "Target and features that kernels for this CPU are compiled for.");
}

}  // namespace tf_disc
