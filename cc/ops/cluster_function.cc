#include "cc/ops/cluster_function.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_disc {

using ::tensorflow::FunctionLibraryRuntime;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

absl::StatusOr<FunctionLibraryRuntime::Handle> ClusterFunction::Instantiate(
    FunctionLibraryRuntime* library) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = handles_.find(library);
  if (found != handles_.end()) return found->second;
  FunctionLibraryRuntime::Handle handle;
  const absl::Status status = library->Instantiate(
      function_.name(), tensorflow::AttrSlice(&function_.attr()), &handle);
  if (!status.ok()) return status;
  handles_[library] = handle;
  return handle;
}

void ClusterFunction::Run(OpKernelContext* context,
                          tensorflow::AsyncOpKernel::DoneCallback done) {
  FunctionLibraryRuntime* library = context->function_library();
  if (library == nullptr) {
    context->SetStatus(absl::FailedPreconditionError(
        absl::StrCat("tf_disc: ", function_.name(),
                     " cannot run here: this device has no function library")));
    done();
    return;
  }
  const absl::StatusOr<FunctionLibraryRuntime::Handle> handle =
      Instantiate(library);
  if (!handle.ok()) {
    context->SetStatus(handle.status());
    done();
    return;
  }
  FunctionLibraryRuntime::Options options(context->step_id());
  options.rendezvous = context->rendezvous();
  options.cancellation_manager = context->cancellation_manager();
  options.collective_executor = context->collective_executor();
  options.step_container = context->step_container();
  options.stats_collector = context->stats_collector();
  options.runner = context->runner();
  options.run_all_kernels_inline = context->run_all_kernels_inline();

  std::vector<Tensor> arguments;
  arguments.reserve(context->num_inputs());
  for (int i = 0; i < context->num_inputs(); ++i) {
    arguments.push_back(context->input(i));
  }
  auto results = std::make_shared<std::vector<Tensor>>();
  library->Run(
      options, *handle, arguments, results.get(),
      [context, results, done = std::move(done)](const absl::Status& status) {
        if (!status.ok()) {
          context->SetStatus(status);
        } else if (static_cast<int>(results->size()) !=
                   context->num_outputs()) {
          context->SetStatus(absl::InternalError(absl::StrCat(
              "tf_disc: the outlined function gave ", results->size(),
              " results, expected ", context->num_outputs())));
        } else {
          for (size_t i = 0; i < results->size(); ++i) {
            context->set_output(static_cast<int>(i), (*results)[i]);
          }
        }
        done();
      });
}

}  // namespace tf_disc
