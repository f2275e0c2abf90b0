#include "cc/ops/cluster_function.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_disc {

using ::tensorflow::FunctionLibraryRuntime;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

namespace {

// As a function of several devices, though all are one: only such functions go
// through the passes that give nodes TensorFlow's oneDNN kernels.
FunctionLibraryRuntime::InstantiateOptions FullOptions(
    const FunctionLibraryRuntime& library, int num_inputs, int num_outputs) {
  const std::string& device = library.device()->name();
  FunctionLibraryRuntime::InstantiateOptions options;
  options.target = device;
  options.is_multi_device_function = true;
  options.input_devices.assign(num_inputs, device);
  options.output_devices.assign(num_outputs, device);
  // The pass has run TensorFlow's fusions on the function already.
  options.config_proto.mutable_graph_options()
      ->mutable_rewrite_options()
      ->set_disable_meta_optimizer(true);
  return options;
}

}  // namespace

absl::StatusOr<ClusterFunction::Instance> ClusterFunction::Instantiate(
    OpKernelContext* context) {
  FunctionLibraryRuntime* const library = context->function_library();
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = instances_.find(library);
  if (found != instances_.end()) return found->second;
  Instance instance;
  const tensorflow::NameAttrList& best =
      fused_.name().empty() ? function_ : fused_;
  absl::Status status = library->Instantiate(
      best.name(), tensorflow::AttrSlice(&best.attr()),
      FullOptions(*library, context->num_inputs(), context->num_outputs()),
      &instance.handle);
  instance.is_multi_device = status.ok();
  if (!status.ok()) {
    VLOG(1) << "tf_disc: " << best.name()
            << " runs without TensorFlow's oneDNN kernels: " << status;
    status = library->Instantiate(function_.name(),
                                  tensorflow::AttrSlice(&function_.attr()),
                                  &instance.handle);
  }
  if (!status.ok()) return status;
  instances_[library] = instance;
  return instance;
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
  const absl::StatusOr<Instance> instance = Instantiate(context);
  if (!instance.ok()) {
    context->SetStatus(instance.status());
    done();
    return;
  }
  FunctionLibraryRuntime::Options options(context->step_id());
  if (instance->is_multi_device) {
    options.create_rendezvous = true;
  } else {
    options.rendezvous = context->rendezvous();
  }
  // Its own: a node that fails cancels the manager of its executor before the
  // error is the step's, and the step's other launches would report that
  // cancellation first.
  using Cancellation = std::unique_ptr<tensorflow::CancellationManager>;
  auto cancellation = std::make_shared<Cancellation>(
      context->cancellation_manager() == nullptr
          ? nullptr
          : new tensorflow::CancellationManager(
                context->cancellation_manager()));
  options.cancellation_manager = cancellation->get();
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
  library->Run(options, instance->handle, arguments, results.get(),
               [context, results, cancellation,
                done = std::move(done)](const absl::Status& status) {
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
                 // The step's, which `done` may end, has to outlive it.
                 cancellation->reset();
                 done();
               });
}

}  // namespace tf_disc
