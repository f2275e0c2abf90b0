// The op table: which nodes a cluster may hold (docs/contracts.md 1). It is
// filled from the Python op rules when tf_disc is enabled; C++ has no list of
// its own.
#ifndef TF_DISC_CC_GRAPPLER_OP_TABLE_H_
#define TF_DISC_CC_GRAPPLER_OP_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tf_disc {

// How much work an op is, in the order of the contract.
enum class OpCost { kHeavy, kReal, kMove, kFree, kShape };

// When the compiler knows an op's results: as constants, or as sizes that it
// follows (docs/contracts.md 1).
enum class OpConstant { kNo, kFolds, kSizes, kAlways };

// One row of the table. All text as in the contract ("f32", "NHWC", "true").
struct OpRule {
  std::string op;
  std::map<std::string, std::vector<std::string>> dtypes;
  std::map<std::string, std::vector<std::string>> attrs;
  std::vector<int> by_value;
  std::vector<int> by_length;
  std::vector<int> weights;
  std::vector<int> resources;
  std::string cost = "real";
  bool alone = false;
  std::string constant = "no";
};

// The rules, indexed by op; an op may have several rows, of which the first
// that matches counts. Immutable once built.
class OpTable {
 public:
  // InvalidArgument names the row and the word that is not in the contract.
  static absl::Status Build(std::vector<OpRule> rules,
                            std::shared_ptr<const OpTable>* table);

  struct Row {
    OpRule rule;
    OpCost cost;
    OpConstant constant;
  };

  // Null if the op has no row.
  const std::vector<Row>* Find(absl::string_view op) const;
  int size() const { return size_; }

 private:
  absl::flat_hash_map<std::string, std::vector<Row>> rows_;
  int size_ = 0;
};

// Sets the process's table, for graphs optimised from now on. An empty list
// takes the table away: the pass then leaves every graph alone. On an error the
// table in force stays. Any thread.
absl::Status SetOpTable(std::vector<OpRule> rules);

// The table in force; null if none was set.
std::shared_ptr<const OpTable> CurrentOpTable();

// Whether `position` (of `num_operands` operands) is among `positions`, of
// which negative ones count from the end.
bool HasPosition(const std::vector<int>& positions, int position,
                 int num_operands);

}  // namespace tf_disc

#endif  // TF_DISC_CC_GRAPPLER_OP_TABLE_H_
