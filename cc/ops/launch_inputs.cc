#include "cc/ops/launch_inputs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tf_disc {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::Var;

namespace {

using Variables = std::vector<tensorflow::core::RefCountPtr<Var>>;

// In which order the locks of some variables are taken, each once, in the order
// of their addresses as TensorFlow takes several: two inputs may be the same
// variable, and a second shared lock of one mutex waits for ever when a writer
// came in between.
struct LockOrder {
  std::vector<Var*> of;        // by variable: what the order was made for
  std::vector<int> firsts;     // by lock: the first variable that has it
  std::vector<int> positions;  // by variable: the place in `firsts`

  // The calling thread's latest one, made anew where the variables are others:
  // it follows from their addresses alone, and most launches have those of the
  // launch before. Valid until the thread's next call.
  static const LockOrder& Of(const Variables& variables) {
    static thread_local LockOrder order;
    const bool is_same =
        std::equal(variables.begin(), variables.end(), order.of.begin(),
                   order.of.end(), [](const auto& variable, Var* known) {
                     return variable.get() == known;
                   });
    if (!is_same) order.Make(variables);
    return order;
  }

  void Make(const Variables& variables) {
    of.clear();
    for (const auto& variable : variables) of.push_back(variable.get());
    std::vector<int> sorted(of.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [this](int a, int b) {
      return std::less<>()(of[a]->mu(), of[b]->mu());
    });
    firsts.clear();
    positions.resize(of.size());
    for (int variable : sorted) {
      if (firsts.empty() || of[firsts.back()] != of[variable]) {
        firsts.push_back(variable);
      }
      positions[variable] = static_cast<int>(firsts.size()) - 1;
    }
  }
};

}  // namespace

LaunchInputs::~LaunchInputs() {
  for (Var* variable : locked_) variable->mu()->unlock_shared();
}

absl::Status LaunchInputs::Resolve(OpKernelContext* context,
                                   const SignatureRules& rules) {
  absl::InlinedVector<int, 4> handles;
  for (int i = 0; i < context->num_inputs(); ++i) {
    tensors_.push_back(&context->input(i));
    if (rules.kind(i) == InputKind::kResource) handles.push_back(i);
  }
  if (handles.empty()) return absl::OkStatus();
  return ResolveVariables(context, handles);
}

absl::Status LaunchInputs::ResolveVariables(OpKernelContext* context,
                                            absl::Span<const int> inputs) {
  variables_.reserve(inputs.size());
  for (int i : inputs) {
    if (context->input(i).NumElements() != 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("input ", i, " is not one handle"));
    }
    const tensorflow::ResourceHandle& handle =
        tensorflow::HandleFromInput(context, i);
    tensorflow::core::RefCountPtr<Var> variable;
    const absl::Status status =
        tensorflow::LookupResource(context, handle, &variable);
    if (!status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("variable \"", handle.name(), "\" was not found"));
    }
    variables_.push_back(std::move(variable));
  }
  const LockOrder& order = LockOrder::Of(variables_);
  references_.reserve(order.firsts.size());
  locked_.reserve(order.firsts.size());
  absl::InlinedVector<const Tensor*, 64> values;
  for (int first : order.firsts) {
    Var* const variable = variables_[first].get();
    variable->mu()->lock_shared();
    if (variable->copy_on_read_mode.load()) {
      locked_.push_back(variable);
      values.push_back(variable->tensor());
    } else {
      references_.push_back(*variable->tensor());
      variable->mu()->unlock_shared();
      values.push_back(&references_.back());
    }
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor* const value = values[order.positions[k]];
    if (!value->IsInitialized()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "variable \"", tensorflow::HandleFromInput(context, inputs[k]).name(),
          "\" has no value"));
    }
    tensors_[inputs[k]] = value;
  }
  return absl::OkStatus();
}

}  // namespace tf_disc
