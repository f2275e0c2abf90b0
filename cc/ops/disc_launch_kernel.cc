// DiscLaunch on the CPU: a kernel where there is one, else the outlined
// function.
//
// No thread ever waits here. The kernel runs on the thread that TensorFlow
// called on and calls `done` itself; the function and the waiting of mode=sync
// go on in callbacks. An output is set once, after the last thing that can
// fail.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cc/base/options.h"
#include "cc/compile/cluster_file.h"
#include "cc/compile/compile_service.h"
#include "cc/compile/signature.h"
#include "cc/compile/speed_trial.h"
#include "cc/ops/cluster_function.h"
#include "cc/ops/launch_dump.h"
#include "cc/ops/launch_inputs.h"
#include "cc/ops/launch_statistics.h"
#include "cc/ops/node_signature.h"
#include "cc/ops/running_launches.h"
#include "cc/ops/tensorflow_host.h"
#include "cc/runtime/launch_frame.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tsl/profiler/lib/traceme.h"

namespace tf_disc {
namespace {

using ::tensorflow::AsyncOpKernel;
using ::tensorflow::CancellationManager;
using ::tensorflow::CancellationToken;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using Answer = CompileService::Answer;

enum class Mode { kAsync, kSync, kAot };

// Each wait of mode=sync ends with a new kernel or a refusal, so a launch waits
// at most once a variant; the bound only guards that reasoning.
constexpr int kMaxWaits = kMaxVariants + 1;

// Why a call that a kernel could have run went to TensorFlow.
constexpr char kTimed[] =
    "TensorFlow is timed, to compare the kernel with it (never_slower)";
constexpr char kSlower[] =
    "the kernel is slower than TensorFlow at this size (never_slower)";

// What came of trying to run a kernel.
struct Attempt {
  bool done = false;   // the outputs are set
  std::string reason;  // else why not
  // A kernel that would help may be asked for, where `record` is not null.
  SignatureRecord* record = nullptr;
  int known_variants = 0;
  CompileRequest request;  // filled if `wanted`
  bool wanted = false;     // nobody has asked for it yet
  // Of the function's run that follows, where its time is of use.
  TrialCall timing;
};

int64_t NanosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now() - begin)
      .count();
}

bool IsAligned(const Tensor& tensor) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.data());
  return address % tensorflow::DataTypeSize(tensor.dtype()) == 0;
}

class DiscLaunchKernel : public AsyncOpKernel {
 public:
  explicit DiscLaunchKernel(OpKernelConstruction* context)
      : AsyncOpKernel(context) {
    tensorflow::NameAttrList function;
    OP_REQUIRES_OK(context, context->GetAttr("cluster", &function));
    tensorflow::NameAttrList fused;
    const auto fallback = context->def().attr().find("_disc_fallback");
    if (fallback != context->def().attr().end()) {
      fused = fallback->second.func();
    }
    function_ = std::make_unique<ClusterFunction>(std::move(function),
                                                  std::move(fused));
    OP_REQUIRES_OK(context, context->GetAttr("cluster_id", &cluster_id_));
    OP_REQUIRES_OK(context, context->GetAttr("Tout", &output_types_));
    statistics_ = &ClusterStatistics::Of(cluster_id_);
    // The function needs none of what follows: a node that the pass wrote
    // wrongly still gives TensorFlow's results.
    const absl::Status status = ReadRules(context);
    if (!status.ok()) {
      unusable_ = absl::StrCat("the node is malformed: ", status.message());
    }
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    statistics_->counts.AddCall();
    if (!unusable_.empty()) {
      FallBack(context, std::move(done), unusable_);
      return;
    }
    Launch(context, std::move(done), /*waits=*/0);
  }

 private:
  // One launch that waits for a compile. Either the compile's end or the
  // cancellation claims it; the other then finds it claimed and must not touch
  // `context`, which may be gone.
  struct Waiter {
    OpKernelContext* context = nullptr;
    DoneCallback done;
    CancellationManager* cancellation = nullptr;
    CancellationToken token = 0;
    std::atomic<bool> claimed{false};

    bool Claim() { return !claimed.exchange(true); }
  };

  absl::Status ReadRules(OpKernelConstruction* context) {
    std::vector<tensorflow::DataType> types;
    std::vector<int32_t> consts, lengths, weights, constants;
    std::vector<tensorflow::PartialTensorShape> shapes;
    std::string options_text, artifact;
    TF_RETURN_IF_ERROR(context->GetAttr("Tin", &types));
    TF_RETURN_IF_ERROR(context->GetAttr("const_operands", &consts));
    TF_RETURN_IF_ERROR(context->GetAttr("length_operands", &lengths));
    TF_RETURN_IF_ERROR(context->GetAttr("weight_operands", &weights));
    TF_RETURN_IF_ERROR(context->GetAttr("constant_weights", &constants));
    TF_RETURN_IF_ERROR(context->GetAttr("input_shapes", &shapes));
    TF_RETURN_IF_ERROR(context->GetAttr("options", &options_text));
    TF_RETURN_IF_ERROR(context->GetAttr("artifact", &artifact));
    absl::StatusOr<SignatureRules> rules =
        SignatureRules::Make(types, consts, lengths, weights, shapes);
    if (!rules.ok()) return rules.status();
    rules_ = *std::move(rules);
    is_constant_.assign(types.size(), false);
    for (int32_t i : constants) {
      if (i < 0 || i >= rules_->size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("attribute constant_weights names input ", i, " of ",
                         rules_->size()));
      }
      is_constant_[i] = true;
    }
    absl::StatusOr<OptionMap> options = ParseOptions(options_text);
    if (!options.ok()) return options.status();
    const std::string& mode = (*options)["mode"];
    if (mode == "sync") {
      mode_ = Mode::kSync;
    } else if (mode == "aot") {
      mode_ = Mode::kAot;
    } else if (!mode.empty() && mode != "async") {
      return absl::InvalidArgumentError(absl::StrCat(
          "option mode is \"", mode, "\", expected async, sync or aot"));
    }
    if (!(*options)["precision"].empty()) precision_ = (*options)["precision"];
    // The other modes promise the kernel.
    never_slower_ = mode_ == Mode::kAsync && (*options)["never_slower"] != "0";
    shipped_ = std::make_shared<const std::string>(std::move(artifact));
    return absl::OkStatus();
  }

  // Runs a kernel, or asks for one and runs the function or waits.
  void Launch(OpKernelContext* context, DoneCallback done, int waits) {
    Attempt attempt = TryKernels(context, /*is_first=*/waits == 0);
    if (attempt.done) {
      done();
    } else if (attempt.record == nullptr) {
      FallBack(context, std::move(done), attempt.reason,
               std::move(attempt.timing));
    } else if (mode_ == Mode::kSync && waits < kMaxWaits) {
      Wait(context, std::move(done), waits, std::move(attempt));
    } else {
      if (attempt.wanted) {
        CompileService::Global().Request(attempt.record, attempt.known_variants,
                                         std::move(attempt.request), nullptr);
      }
      FallBack(context, std::move(done), attempt.reason,
               std::move(attempt.timing));
    }
  }

  // Runs the first variant whose guards hold, unless TensorFlow is faster.
  // Holds variables' locks at most until it returns.
  // `is_first`: not a launch that has waited.
  Attempt TryKernels(OpKernelContext* context, bool is_first) {
    Attempt attempt;
    LaunchInputs inputs;
    absl::Status status = inputs.Resolve(context, *rules_);
    if (status.ok()) status = rules_->Check(inputs.tensors());
    if (!status.ok()) {
      attempt.reason = std::string(status.message());
      return attempt;
    }
    // Kept by the thread, so that a launch allocates nothing for it.
    static thread_local std::string key;
    key.clear();
    rules_->AppendKey(inputs.tensors(), &key);
    NodeSignature* signature = signatures_.Find(key);
    if (signature == nullptr) {
      signature = AddSignature(context, inputs.tensors());
      if (signature == nullptr) {
        attempt.reason = absl::StrCat(
            "the node has ", CompileService::kMaxSignatures,
            " signatures already; its constant operands or weights change from "
            "call to call");
        return attempt;
      }
    }
    if (signature->record == nullptr) {
      attempt.reason = signature->failure;
      return attempt;
    }
    SignatureRecord* record = signature->record;
    if (is_first) record->counts.AddCall();
    const int size_class =
        never_slower_
            ? SpeedTrials::SizeClass(rules_->VariableElements(inputs.tensors()))
            : 0;
    const int count = record->num_variants();
    for (int i = 0; i < count; ++i) {
      TrialCall timing = Choose(context, record, i, size_class);
      const bool is_left = timing.way() == Way::kFunction;
      const LaunchResult result =
          RunVariant(context, inputs.tensors(), signature, i, &timing);
      if (result.outcome == LaunchOutcome::kDone) {
        attempt.done = !is_left;
        if (is_left) attempt.reason = timing.is_timed() ? kTimed : kSlower;
        attempt.timing = std::move(timing);
        return attempt;
      }
      attempt.reason = absl::StrCat(
          result.outcome == LaunchOutcome::kGuardFailed ? "a guard failed: "
                                                        : "the kernel failed: ",
          result.reason);
      if (result.outcome == LaunchOutcome::kFailed) return attempt;
    }
    if (count > 0) {
      record->guard_failures.fetch_add(1, std::memory_order_relaxed);
    }
    FillRequest(context, inputs.tensors(), record, count, &attempt);
    if (never_slower_ && attempt.record != nullptr && count < kMaxVariants) {
      attempt.timing =
          record->trials(count).Of(size_class).BeginWithoutKernel();
    }
    return attempt;
  }

  // Which way a call goes that variant `i` could run.
  TrialCall Choose(OpKernelContext* context, SignatureRecord* record, int i,
                   int size_class) {
    if (!never_slower_) return TrialCall();
    TrialCall timing = record->trials(i).Of(size_class).Begin();
    if (timing.way() == Way::kFunction && !function_->CanRun(context)) {
      return TrialCall();
    }
    return timing;
  }

  // Runs variant `i`. If `timing` says that the call is TensorFlow's, looks at
  // the guards alone: whether the variant is what it is compared with.
  LaunchResult RunVariant(OpKernelContext* context,
                          absl::Span<const Tensor* const> tensors,
                          NodeSignature* signature, int i, TrialCall* timing) {
    const NodeSignature::Variant& variant =
        signature->variant(i, tensors, output_types_);
    if (!variant.mismatch.empty()) {
      return {LaunchOutcome::kFailed, -1, variant.mismatch};
    }
    absl::InlinedVector<LaunchInput, 16> inputs(tensors.size());
    size_t num_dims = 0;
    for (const Tensor* tensor : tensors) num_dims += tensor->dims();
    // Of all inputs, one after the other.
    absl::InlinedVector<int64_t, 64> dims(num_dims);
    int64_t* next = dims.data();
    for (size_t k = 0; k < tensors.size(); ++k) {
      const Tensor& tensor = *tensors[k];
      if (!IsAligned(tensor)) {
        return {LaunchOutcome::kFailed, -1,
                absl::StrCat("input ", k, " is not aligned to its elements")};
      }
      inputs[k].dims = absl::MakeConstSpan(next, tensor.dims());
      for (int d = 0; d < tensor.dims(); ++d) *next++ = tensor.dim_size(d);
      inputs[k].data = tensor.data();
      inputs[k].dtype = static_cast<disc_dtype>(DiscDtype(tensor.dtype()));
      inputs[k].is_cacheable_weight =
          rules_->kind(static_cast<int>(k)) == InputKind::kWeight &&
          OwnsMemory(tensor);
      inputs[k].is_constant = is_constant_[k];
    }
    const Executable& executable = *signature->record->variant(i);
    if (timing->way() == Way::kFunction) return CheckGuards(executable, inputs);
    tsl::profiler::TraceMe trace(
        [&] { return absl::StrCat("tf_disc:", cluster_id_); });
    TensorFlowHost host(context, tensors);
    std::optional<RunningLaunch> running;
    if (never_slower_) running.emplace(timing->is_timed());
    const auto begin = std::chrono::steady_clock::now();
    LaunchResult result =
        RunExecutable(executable, inputs, variant.slots.get(), &host);
    if (result.outcome != LaunchOutcome::kDone) return result;
    const absl::Status status = host.HandOverOutputs();
    if (!status.ok()) {
      return {LaunchOutcome::kFailed, -1, std::string(status.message())};
    }
    const int64_t ns = NanosecondsSince(begin);
    if (timing->is_timed()) {
      const bool is_alone = running->End();
      timing->Finish(ns, is_alone && CompileService::Global().is_idle());
    }
    signature->record->counts.AddKernelRun(ns);
    statistics_->counts.AddKernelRun(ns);
    return result;
  }

  // The cluster file for these inputs.
  absl::StatusOr<ClusterFile> MakeClusterFile(
      OpKernelContext* context, absl::Span<const ClusterInput> inputs) const {
    tensorflow::FunctionLibraryRuntime* library = context->function_library();
    if (library == nullptr ||
        library->GetFunctionLibraryDefinition() == nullptr) {
      return absl::FailedPreconditionError(
          "this device has no function library");
    }
    const tensorflow::FunctionLibraryDefinition& functions =
        *library->GetFunctionLibraryDefinition();
    const auto record = functions.FindRecord(function_->name());
    if (record == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "the function ", function_->name(), " is not in the library"));
    }
    return WriteClusterFile(record->fdef(), inputs, functions);
  }

  // Null when the node has too many.
  NodeSignature* AddSignature(OpKernelContext* context,
                              absl::Span<const Tensor* const> tensors) {
    if (signatures_.size() >=
        static_cast<size_t>(CompileService::kMaxSignatures)) {
      return nullptr;
    }
    const std::vector<ClusterInput> described = rules_->Describe(tensors);
    std::string key;
    rules_->AppendKey(tensors, &key);
    CompileService& service = CompileService::Global();
    absl::StatusOr<SignatureRecord*> record = nullptr;
    const absl::StatusOr<ClusterFile> file =
        MakeClusterFile(context, described);
    if (file.ok()) {
      record = service.FindOrAdd(
          cluster_id_, service.ArtifactKey(file->key_json, precision_),
          DescribeSignature(described));
    } else {
      record = file.status();
    }
    return signatures_.Add(
        key, std::make_unique<NodeSignature>(
                 record.ok() ? *record : nullptr,
                 record.ok() ? "" : std::string(record.status().message())));
  }

  // What to do about a signature whose `known_variants` kernels do not fit.
  void FillRequest(OpKernelContext* context,
                   absl::Span<const Tensor* const> tensors,
                   SignatureRecord* record, int known_variants,
                   Attempt* attempt) const {
    CompileService& service = CompileService::Global();
    const bool may_compile = mode_ != Mode::kAot;
    const Answer answer = service.Ask(*record, known_variants, may_compile);
    if (answer == Answer::kRefused) {
      if (known_variants == 0) attempt->reason = record->status().failure;
      return;
    }
    attempt->record = record;
    attempt->known_variants = known_variants;
    if (known_variants == 0) {
      attempt->reason = may_compile ? "compiling" : "loading";
    }
    if (answer != Answer::kWanted) return;
    absl::StatusOr<ClusterFile> file =
        MakeClusterFile(context, rules_->Describe(tensors));
    if (!file.ok()) {
      attempt->record = nullptr;
      attempt->reason = std::string(file.status().message());
      return;
    }
    attempt->wanted = true;
    CompileRequest& request = attempt->request;
    request.cluster_json = std::move(file->json);
    request.precision = precision_;
    request.shipped = shipped_;
    request.may_compile = may_compile;
    const std::string dump_dir = service.settings()->dump_dir;
    if (dump_dir.empty() || !may_compile) return;
    absl::StatusOr<std::string> folder =
        WriteLaunchDump(dump_dir, cluster_id_, request.cluster_json, tensors);
    if (folder.ok()) {
      request.dump_folder = *std::move(folder);
    } else {
      service.AddProblem(std::string(folder.status().message()));
    }
  }

  // mode=sync: goes on with Launch when the compile has ended.
  void Wait(OpKernelContext* context, DoneCallback done, int waits,
            Attempt attempt) {
    auto waiter = std::make_shared<Waiter>();
    waiter->context = context;
    waiter->done = std::move(done);
    // First the cancellation, then the request: once that may call back, the
    // context may be gone before this function's next line.
    CancellationManager* cancellation = context->cancellation_manager();
    if (cancellation != nullptr) {
      waiter->token = cancellation->get_cancellation_token();
      waiter->cancellation = cancellation;
      const bool registered =
          cancellation->RegisterCallback(waiter->token, [waiter] {
            if (waiter->Claim()) Cancel(waiter.get());
          });
      if (!registered) {
        if (waiter->Claim()) Cancel(waiter.get());
        return;
      }
    }
    const Answer answer = CompileService::Global().Request(
        attempt.record, attempt.known_variants, std::move(attempt.request),
        [this, waiter, waits] {
          if (!waiter->Claim()) return;
          // Not on the compile thread: the next compile would wait for this
          // run.
          // A copy: the step, and its runner with it, may end within the call.
          const auto runner = *waiter->context->runner();
          runner([this, waiter, waits] { Resume(waiter.get(), waits); });
        });
    if (answer != Answer::kPending && waiter->Claim()) {
      Resume(waiter.get(), waits);
    }
  }

  static void Cancel(Waiter* waiter) {
    waiter->context->SetStatus(absl::CancelledError(
        "the step was cancelled while DiscLaunch waited for a compile"));
    waiter->done();
  }

  // `waiter` is claimed by the caller.
  void Resume(Waiter* waiter, int waits) {
    if (waiter->cancellation != nullptr) {
      // Waits for a callback under way, which finds the waiter claimed.
      waiter->cancellation->DeregisterCallback(waiter->token);
    }
    Launch(waiter->context, std::move(waiter->done), waits + 1);
  }

  void FallBack(OpKernelContext* context, DoneCallback done,
                const std::string& reason, TrialCall timing = TrialCall()) {
    if (function_->CanRun(context)) {
      statistics_->AddFallback(reason);
    } else {
      // Constant folding tries the node; it gets an error and leaves it alone.
      statistics_->counts.RemoveCall();
    }
    if (!never_slower_) {
      function_->Run(context, std::move(done));
      return;
    }
    struct TimedRun {
      TrialCall timing;
      DoneCallback done;
      RunningLaunch running{/*asks=*/true};
      std::chrono::steady_clock::time_point begin;
    };
    auto run = std::make_shared<TimedRun>();
    run->timing = std::move(timing);
    run->done = std::move(done);
    run->begin = std::chrono::steady_clock::now();
    function_->Run(context, [run, context] {
      const int64_t ns = NanosecondsSince(run->begin);
      const bool is_alone = run->running.End();
      // An error is no run to speak of.
      if (run->timing.is_timed() && context->status().ok()) {
        run->timing.Finish(ns, is_alone && CompileService::Global().is_idle());
      }
      // It ends the step and with it, perhaps, this kernel.
      const DoneCallback done = std::move(run->done);
      done();
    });
  }

  std::unique_ptr<ClusterFunction> function_;
  std::string cluster_id_;
  std::vector<tensorflow::DataType> output_types_;
  ClusterStatistics* statistics_ = nullptr;
  std::string unusable_;  // why no kernel can ever run here
  absl::StatusOr<SignatureRules> rules_ =
      absl::FailedPreconditionError("not read");
  std::vector<bool> is_constant_;  // by input: a weight that is a Const
  Mode mode_ = Mode::kAsync;
  std::string precision_ = "f32";
  bool never_slower_ = false;
  std::shared_ptr<const std::string> shipped_;
  NodeSignatureTable signatures_;
};

REGISTER_KERNEL_BUILDER(Name("DiscLaunch").Device(tensorflow::DEVICE_CPU),
                        DiscLaunchKernel);

}  // namespace
}  // namespace tf_disc
