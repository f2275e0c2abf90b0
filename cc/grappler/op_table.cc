#include "cc/grappler/op_table.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "cc/base/dtype_names.h"

namespace tf_disc {
namespace {

struct State {
  absl::Mutex mutex;
  std::shared_ptr<const OpTable> table ABSL_GUARDED_BY(mutex);
};

State& GetState() {
  static State* state = new State;
  return *state;
}

absl::Status CostFromName(const OpRule& rule, OpCost* cost) {
  static constexpr std::pair<absl::string_view, OpCost> kNames[] = {
      {"heavy", OpCost::kHeavy}, {"real", OpCost::kReal},
      {"move", OpCost::kMove},   {"free", OpCost::kFree},
      {"shape", OpCost::kShape},
  };
  for (const auto& [name, value] : kNames) {
    if (name == rule.cost) {
      *cost = value;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tf_disc: op table row \"", rule.op, "\" has cost \"",
                   rule.cost, "\"; expected heavy, real, move, free or shape"));
}

absl::Status ConstantFromName(const OpRule& rule, OpConstant* constant) {
  static constexpr std::pair<absl::string_view, OpConstant> kNames[] = {
      {"no", OpConstant::kNo},
      {"folds", OpConstant::kFolds},
      {"sizes", OpConstant::kSizes},
      {"always", OpConstant::kAlways},
  };
  for (const auto& [name, value] : kNames) {
    if (name == rule.constant) {
      *constant = value;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tf_disc: op table row \"", rule.op, "\" has constant \"",
                   rule.constant, "\"; expected no, folds, sizes or always"));
}

}  // namespace

absl::Status OpTable::Build(std::vector<OpRule> rules,
                            std::shared_ptr<const OpTable>* table) {
  auto built = std::make_shared<OpTable>();
  for (OpRule& rule : rules) {
    if (rule.op.empty()) {
      return absl::InvalidArgumentError("tf_disc: op table row without an op");
    }
    for (const auto& [attr, names] : rule.dtypes) {
      for (const std::string& name : names) {
        if (DtypeFromName(name) != tensorflow::DT_INVALID) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "tf_disc: op table row \"", rule.op, "\" allows ", attr, "=\"",
            name, "\"; expected a type of docs/contracts.md"));
      }
    }
    OpCost cost = OpCost::kReal;
    absl::Status status = CostFromName(rule, &cost);
    OpConstant constant = OpConstant::kNo;
    if (status.ok()) status = ConstantFromName(rule, &constant);
    if (!status.ok()) return status;
    std::vector<Row>& rows = built->rows_[rule.op];
    rows.push_back(Row{std::move(rule), cost, constant});
    ++built->size_;
  }
  *table = std::move(built);
  return absl::OkStatus();
}

const std::vector<OpTable::Row>* OpTable::Find(absl::string_view op) const {
  const auto found = rows_.find(op);
  return found == rows_.end() ? nullptr : &found->second;
}

absl::Status SetOpTable(std::vector<OpRule> rules) {
  std::shared_ptr<const OpTable> table;
  if (!rules.empty()) {
    absl::Status status = OpTable::Build(std::move(rules), &table);
    if (!status.ok()) return status;
  }
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  state.table = std::move(table);
  return absl::OkStatus();
}

std::shared_ptr<const OpTable> CurrentOpTable() {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  return state.table;
}

bool HasPosition(const std::vector<int>& positions, int position,
                 int num_operands) {
  for (int wanted : positions) {
    if (wanted == position || wanted + num_operands == position) return true;
  }
  return false;
}

}  // namespace tf_disc
