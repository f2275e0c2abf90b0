#include <pybind11/stl.h>

#include "cc/bindings/bindings.h"
#include "cc/grappler/graph_dump.h"
#include "cc/ops/control.h"
#include "cc/runtime/weight_cache.h"

namespace py = pybind11;

namespace tf_disc {
namespace {

void ConfigureLaunch(std::vector<std::string> worker_command,
                     const std::map<std::string, std::string>& environment,
                     std::string fingerprint, std::string cache_dir,
                     std::string dump_dir, double compile_timeout_s,
                     int64_t weight_cache_mb, int64_t pool_mb,
                     double pool_trim_s, double worker_start_timeout_s,
                     double worker_idle_s, int64_t cache_limit_bytes,
                     std::string max_cpu) {
  LaunchSettings settings;
  settings.worker_command = std::move(worker_command);
  for (const auto& [name, value] : environment) {
    settings.worker_environment.push_back(name + "=" + value);
  }
  settings.fingerprint = std::move(fingerprint);
  settings.cache_dir = std::move(cache_dir);
  SetGraphDumpDir(dump_dir);
  settings.dump_dir = std::move(dump_dir);
  settings.compile_timeout_s = compile_timeout_s;
  settings.weight_cache_mb = weight_cache_mb;
  settings.pool_mb = pool_mb;
  settings.pool_trim_s = pool_trim_s;
  settings.worker_start_timeout_s = worker_start_timeout_s;
  settings.worker_idle_s = worker_idle_s;
  settings.cache_limit_bytes = cache_limit_bytes;
  settings.max_cpu = std::move(max_cpu);
  ThrowIfError(Configure(settings));
}

}  // namespace

void BindLaunch(py::module_& module) {
  module.def(
      "configure", &ConfigureLaunch, py::kw_only(), py::arg("worker_command"),
      py::arg("worker_environment"), py::arg("fingerprint"),
      py::arg("cache_dir"), py::arg("dump_dir"), py::arg("compile_timeout_s"),
      py::arg("weight_cache_mb"), py::arg("pool_mb") = int64_t{512},
      py::arg("pool_trim_s") = 10.0, py::arg("worker_start_timeout_s") = 60.0,
      py::arg("worker_idle_s") = 30.0,
      py::arg("cache_limit_bytes") = int64_t{1} << 30, py::arg("max_cpu") = "");
  module.def("launch_statistics", &LaunchStatisticsJson,
             "JSON text; docs/report.md has the fields.");
  module.def("reset_launch_statistics", &ResetLaunchStatistics);
  // Both may wait for a lock or a compile, which must not stop other threads.
  module.def("wait_for_compiles", &WaitForCompiles, py::arg("timeout_s"),
             py::call_guard<py::gil_scoped_release>());
  module.def(
      "clear_weight_cache", [] { WeightCache::Global().Clear(); },
      py::call_guard<py::gil_scoped_release>());
  module.def("clear_pool", &ClearPool,
             py::call_guard<py::gil_scoped_release>());
  module.def("clear_failed_compiles", &ClearFailedCompiles);
  module.def("compile_worker_pid", &CompileWorkerPid);
}

}  // namespace tf_disc
