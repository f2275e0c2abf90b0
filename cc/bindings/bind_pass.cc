#include <pybind11/stl.h>

#include "cc/bindings/bindings.h"
#include "cc/grappler/offline.h"
#include "cc/grappler/op_table.h"
#include "cc/grappler/registration.h"
#include "cc/grappler/statistics.h"

namespace py = pybind11;

namespace tf_disc {
namespace {

// One row of the table (docs/contracts.md 1). A key that is missing is an error
// of the op rules, and Python says which.
OpRule RuleOf(const py::dict& row) {
  OpRule rule;
  rule.op = row["op"].cast<std::string>();
  rule.dtypes =
      row["dtypes"].cast<std::map<std::string, std::vector<std::string>>>();
  rule.attrs =
      row["attrs"].cast<std::map<std::string, std::vector<std::string>>>();
  rule.by_value = row["by_value"].cast<std::vector<int>>();
  rule.by_length = row["by_length"].cast<std::vector<int>>();
  rule.weights = row["weights"].cast<std::vector<int>>();
  rule.resources = row["resources"].cast<std::vector<int>>();
  rule.cost = row["cost"].cast<std::string>();
  rule.alone = row["alone"].cast<bool>();
  rule.constant = row["constant"].cast<std::string>();
  return rule;
}

void SetTable(const std::vector<py::dict>& rows) {
  std::vector<OpRule> rules;
  for (const py::dict& row : rows) rules.push_back(RuleOf(row));
  ThrowIfError(SetOpTable(std::move(rules)));
}

py::bytes Optimize(const py::bytes& graph, std::vector<std::string> fetches,
                   std::vector<std::string> feeds,
                   std::vector<std::string> keep_ops, std::string graph_id,
                   bool allow_non_differentiable_rewrites, bool remap) {
  OfflineRequest request;
  request.graph = graph;
  request.fetches = std::move(fetches);
  request.feeds = std::move(feeds);
  request.keep_ops = std::move(keep_ops);
  request.id = std::move(graph_id);
  request.allow_non_differentiable_rewrites = allow_non_differentiable_rewrites;
  request.remap = remap;
  absl::StatusOr<std::string> optimized;
  {
    py::gil_scoped_release released;
    optimized = OptimizeGraph(request);
  }
  ThrowIfError(optimized.status());
  return py::bytes(*optimized);
}

}  // namespace

void BindPass(py::module_& module) {
  module.def("set_op_table", &SetTable, py::arg("rows"));
  module.def("optimize_graph", &Optimize,
             "Serialised GraphDef to serialised GraphDef.", py::arg("graph"),
             py::arg("fetches"), py::kw_only(),
             py::arg("feeds") = std::vector<std::string>(),
             py::arg("keep_ops") = std::vector<std::string>(),
             py::arg("graph_id") = "offline",
             py::arg("allow_non_differentiable_rewrites") = true,
             py::arg("remap") = true);
  module.def("pass_statistics", &PassStatisticsJson,
             "JSON text; docs/report.md has the fields.");
  module.def("reset_pass_statistics", &ResetPassStatistics);
  module.def("registration", &RegistrationName,
             "How Grappler calls the pass: plugin, custom or duplicate.");
}

}  // namespace tf_disc
