#include "cc/ops/launch_inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tf_disc {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::Var;

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
  std::vector<Var*> of_input;
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
    of_input.push_back(variable.get());
    variables_.push_back(std::move(variable));
  }
  // Each lock once, in the order of their addresses as TensorFlow takes
  // several: two inputs may be the same variable, and a second shared lock of
  // one mutex waits for ever when a writer came in between.
  std::vector<Var*> unique = of_input;
  std::sort(unique.begin(), unique.end(),
            [](Var* a, Var* b) { return a->mu() < b->mu(); });
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  references_.reserve(unique.size());
  std::vector<const Tensor*> values;
  for (Var* variable : unique) {
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
    const size_t position =
        std::find(unique.begin(), unique.end(), of_input[k]) - unique.begin();
    if (!values[position]->IsInitialized()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "variable \"", tensorflow::HandleFromInput(context, inputs[k]).name(),
          "\" has no value"));
    }
    tensors_[inputs[k]] = values[position];
  }
  return absl::OkStatus();
}

}  // namespace tf_disc
