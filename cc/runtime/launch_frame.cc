#include "cc/runtime/launch_frame.h"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/runtime/gemm_plain.h"
#include "cc/runtime/mxcsr.h"
#include "cc/runtime/parallel_for.h"
#include "cc/runtime/weight_cache.h"

namespace tf_disc {
namespace {

constexpr int64_t kAlignment = 64;  // of arena, scratch and outputs

bool RoundUpToAlignment(int64_t value, int64_t* rounded) {
  if (value < 0 || __builtin_add_overflow(value, kAlignment - 1, rounded)) {
    return false;
  }
  *rounded = *rounded / kAlignment * kAlignment;
  return true;
}

// A weight as one gemm of this run reads it.
struct RunWeight {
  const void* data = nullptr;                  // as it is in its tensor
  std::shared_ptr<const PackedWeight> packed;  // or null
};

// What disc_frame::run points to.
struct Run {
  const Executable* executable;
  Host* host;
  std::optional<Crew> crew;
  absl::InlinedVector<RunWeight, 8> weights;  // one a gemm
  int64_t gemm_scratch_offset = 0;            // in a slot's scratch

  std::mutex mutex;
  std::string library_failure;  // the first one; guarded by mutex

  int32_t FailLibrary(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (library_failure.empty()) library_failure = status.message();
    return DISC_LIBRARY_FAILED;
  }
};

Run* RunOf(disc_frame_t* frame) { return static_cast<Run*>(frame->run); }

int32_t ImportParallelFor(disc_frame_t* frame, int32_t task, disc_task_fn fn,
                          const int64_t* args, int64_t count, int64_t grain,
                          int64_t item_cost_ns) {
  Run* const run = RunOf(frame);
  const std::vector<std::string>& tasks = run->executable->manifest().tasks;
  const bool named = task >= 0 && static_cast<size_t>(task) < tasks.size();
  return run->crew->ParallelFor(named ? tasks[task].c_str() : "task", count,
                                grain, item_cost_ns,
                                [=](int64_t begin, int64_t end, int32_t slot) {
                                  return fn(frame, args, begin, end, slot);
                                });
}

int32_t ImportGemmDense(disc_frame_t* frame, int32_t dtype, int32_t /*slot*/,
                        int32_t transpose_a, int32_t transpose_b, int64_t m,
                        int64_t n, int64_t k, const void* a, int64_t lda,
                        const void* b, int64_t ldb, void* c, int64_t ldc) {
  const auto type = static_cast<disc_dtype>(dtype);
  const absl::Status status =
      type == DISC_F32 || type == DISC_BF16
          ? DenseGemm(type, transpose_a != 0, transpose_b != 0, m, n, k, a, lda,
                      b, ldb, static_cast<float*>(c), ldc)
          : PlainGemm(type, transpose_a != 0, transpose_b != 0, m, n, k, a, lda,
                      b, ldb, c, ldc);
  return status.ok() ? DISC_OK : RunOf(frame)->FailLibrary(status);
}

int32_t ImportGemmPacked(disc_frame_t* frame, int32_t gemm, int32_t slot,
                         int64_t rows, int64_t begin, int64_t end,
                         const void* a, int64_t lda, void* c, int64_t ldc) {
  Run* const run = RunOf(frame);
  const Manifest& manifest = run->executable->manifest();
  if (gemm < 0 || static_cast<size_t>(gemm) >= manifest.gemms.size() ||
      slot < 0 || slot >= frame->num_slots || begin < 0 || begin % 64 != 0 ||
      begin > end || end > manifest.gemms[gemm].n) {
    return run->FailLibrary(absl::InternalError(
        absl::StrCat("gemm_packed: gemm ", gemm, ", columns ", begin, " to ",
                     end, " in slot ", slot)));
  }
  const ManifestGemm& use = manifest.gemms[gemm];
  const RunWeight& weight = run->weights[gemm];
  absl::Status status;
  auto* const result = static_cast<float*>(c);
  if (weight.packed == nullptr) {
    const StoredWeight stored = {weight.data, use.dtype, use.transpose, use.k,
                                 use.n};
    status =
        UnpackedGemm(use.packed, rows, begin, end, a, lda, stored, result, ldc);
  } else {
    char* const scratch = static_cast<char*>(frame->scratch) +
                          slot * frame->scratch_stride +
                          run->gemm_scratch_offset;
    status = run->executable->gemms()[gemm]->Run(
        rows, begin, end, a, lda, weight.packed->data(), result, ldc, scratch);
  }
  return status.ok() ? DISC_OK : run->FailLibrary(status);
}

constexpr disc_imports_t kImports = {DISC_ABI_VERSION, sizeof(disc_imports_t),
                                     &ImportParallelFor, &ImportGemmPacked,
                                     &ImportGemmDense};

LaunchResult Failed(std::string reason) {
  LaunchResult result;
  result.outcome = LaunchOutcome::kFailed;
  result.reason = std::move(reason);
  return result;
}

// An entry's status other than DISC_OK.
LaunchResult NotOk(const char* entry, int32_t status, const disc_frame_t& frame,
                   Run* run) {
  if (status == DISC_LIBRARY_FAILED) {
    const std::lock_guard<std::mutex> lock(run->mutex);
    return Failed(run->library_failure.empty() ? "an import failed"
                                               : run->library_failure);
  }
  if (status != DISC_GUARD_FAILED) {
    return Failed(absl::StrCat("the kernel's ", entry, " returned ", status));
  }
  LaunchResult result;
  result.outcome = LaunchOutcome::kGuardFailed;
  const std::vector<std::string>& guards = run->executable->manifest().guards;
  const int32_t guard = frame.failed_guard;
  if (guard >= 0 && static_cast<size_t>(guard) < guards.size()) {
    result.failed_guard = guard;
    result.reason = guards[guard];
  } else {
    // Guards of the plan have numbers; what a task finds while it runs does
    // not.
    result.reason =
        "an element is outside of what the kernel computes (an index out of "
        "range, a division of integers by zero, an "
        "argument too far for its function)";
  }
  return result;
}

// Empty if `inputs` are what the manifest says; else what differs.
std::string CheckInputs(const Manifest& manifest,
                        absl::Span<const LaunchInput> inputs) {
  if (inputs.size() != manifest.inputs.size()) {
    return absl::StrCat("compiled for ", manifest.inputs.size(),
                        " inputs, called with ", inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ManifestTensor& expected = manifest.inputs[i];
    if (inputs[i].dtype != expected.dtype ||
        inputs[i].dims.size() != static_cast<size_t>(expected.rank)) {
      return absl::StrCat("input ", i, " is ", AbiDtypeName(inputs[i].dtype),
                          "[", absl::StrJoin(inputs[i].dims, ","),
                          "], compiled for ", AbiDtypeName(expected.dtype),
                          " of rank ", expected.rank);
    }
  }
  for (size_t g = 0; g < manifest.gemms.size(); ++g) {
    const ManifestGemm& use = manifest.gemms[g];
    int64_t elements = 1;
    bool overflow = false;
    for (int64_t dim : inputs[use.weight].dims) {
      overflow |= __builtin_mul_overflow(elements, dim, &elements);
    }
    if (overflow || elements != use.k * use.n) {
      return absl::StrCat("weight input ", use.weight, " has dims [",
                          absl::StrJoin(inputs[use.weight].dims, ","),
                          "], gemm ", g, " was compiled for k=", use.k,
                          ", n=", use.n);
    }
  }
  return "";
}

void ResolveWeights(absl::Span<const LaunchInput> inputs, WeightSlots* slots,
                    Run* run) {
  const Manifest& manifest = run->executable->manifest();
  run->weights.resize(manifest.gemms.size());
  for (size_t g = 0; g < manifest.gemms.size(); ++g) {
    const ManifestGemm& use = manifest.gemms[g];
    const LaunchInput& input = inputs[use.weight];
    const std::shared_ptr<const PackedGemm>& gemm = run->executable->gemms()[g];
    run->weights[g].data = input.data;
    if (slots == nullptr || !input.is_cacheable_weight || !gemm->can_pack() ||
        input.data == nullptr) {
      continue;
    }
    WeightCache::Request request;
    request.gemm = gemm;
    request.data = input.data;
    request.stored = use.dtype;
    request.transpose = use.transpose;
    request.is_constant = input.is_constant;
    run->weights[g].packed = WeightCache::Global().Resolve(
        request, [&] { return run->host->HoldInput(use.weight); },
        &(*slots)[g]);
  }
}

// Asks the host for every output. `dims` are the plan's, all outputs in a row.
absl::Status AllocateOutputs(const Manifest& manifest,
                             absl::Span<const int64_t> dims, Host* host,
                             absl::Span<void*> outputs) {
  size_t first_dim = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ManifestTensor& output = manifest.outputs[i];
    const absl::Span<const int64_t> shape =
        dims.subspan(first_dim, static_cast<size_t>(output.rank));
    first_dim += static_cast<size_t>(output.rank);
    int64_t bytes = AbiDtypeSize(output.dtype);
    bool bad = false;
    bool empty = false;
    for (int64_t dim : shape) {
      bad |= dim < 0;
      empty |= dim == 0;
      // A zero hides an overflow before or after it, as TensorFlow refuses.
      if (dim > 0) bad |= __builtin_mul_overflow(bytes, dim, &bytes);
    }
    if (bad) {
      return absl::InternalError(absl::StrCat("the plan gives output ", i,
                                              " the dims [",
                                              absl::StrJoin(shape, ","), "]"));
    }
    absl::StatusOr<void*> data =
        host->AllocateOutput(static_cast<int>(i), output.dtype, shape);
    if (!data.ok()) return data.status();
    if (*data == nullptr && !empty) {
      return absl::InternalError(absl::StrCat("no memory for output ", i));
    }
    outputs[i] = empty ? nullptr : *data;
  }
  return absl::OkStatus();
}

absl::Status AllocateArenaAndScratch(Run* run, disc_frame_t* frame) {
  int64_t own = 0;
  int64_t gemm = 0;
  int64_t total = 0;
  if (frame->arena_bytes < 0 ||
      !RoundUpToAlignment(frame->scratch_bytes, &own) ||
      !RoundUpToAlignment(run->executable->gemm_scratch_bytes(), &gemm) ||
      __builtin_add_overflow(own, gemm, &frame->scratch_stride) ||
      __builtin_mul_overflow(frame->scratch_stride, frame->num_slots, &total)) {
    return absl::InternalError(
        absl::StrCat("the plan asks for an arena of ", frame->arena_bytes,
                     " bytes and a scratch of ", frame->scratch_bytes));
  }
  // A slot's scratch is the kernel's own, then oneDNN's.
  run->gemm_scratch_offset = own;
  if (frame->arena_bytes > 0) {
    absl::StatusOr<void*> arena =
        run->host->AllocateTemporary(frame->arena_bytes);
    if (!arena.ok()) return arena.status();
    if (*arena == nullptr) return absl::InternalError("no memory for arena");
    frame->arena = *arena;
  }
  if (total > 0) {
    absl::StatusOr<void*> scratch = run->host->AllocateTemporary(total);
    if (!scratch.ok()) return scratch.status();
    if (*scratch == nullptr) {
      return absl::InternalError("no memory for scratch");
    }
    frame->scratch = *scratch;
  }
  return absl::OkStatus();
}

// The frame of one run and what it points to, up to the plan's results.
class PlannedFrame {
 public:
  // `host` null: for the plan alone.
  PlannedFrame(const Executable& executable,
               absl::Span<const LaunchInput> inputs, Host* host)
      : tensors_(inputs.size()),
        output_dims_(NumOutputDims(executable.manifest()), -1),
        sizes_(static_cast<size_t>(executable.manifest().num_sizes), 0) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      tensors_[i] = {inputs[i].data, inputs[i].dims.data()};
    }
    run_.executable = &executable;
    run_.host = host;
    frame_.imports = &kImports;
    frame_.run = &run_;
    frame_.inputs = tensors_.data();
    frame_.output_dims = output_dims_.data();
    frame_.sizes = sizes_.data();
    frame_.num_slots = host == nullptr ? 1 : std::max(host->NumThreads(), 1);
    frame_.failed_guard = -1;
    if (host != nullptr) run_.crew.emplace(host, frame_.num_slots);
  }
  // The frame points into this object.
  PlannedFrame(const PlannedFrame&) = delete;
  PlannedFrame& operator=(const PlannedFrame&) = delete;

  disc_frame_t* frame() { return &frame_; }
  Run* run() { return &run_; }
  absl::Span<const int64_t> output_dims() const { return output_dims_; }

 private:
  static size_t NumOutputDims(const Manifest& manifest) {
    size_t count = 0;
    for (const ManifestTensor& output : manifest.outputs) {
      count += static_cast<size_t>(output.rank);
    }
    return count;
  }

  absl::InlinedVector<disc_tensor_t, 16> tensors_;
  absl::InlinedVector<int64_t, 32> output_dims_;
  absl::InlinedVector<int64_t, 64> sizes_;
  Run run_;
  disc_frame_t frame_ = {};
};

}  // namespace

LaunchResult CheckGuards(const Executable& executable,
                         absl::Span<const LaunchInput> inputs) {
  std::string wrong = CheckInputs(executable.manifest(), inputs);
  if (!wrong.empty()) return Failed(std::move(wrong));
  PlannedFrame planned(executable, inputs, /*host=*/nullptr);
  const ScopedKernelMxcsr mode;
  const int32_t status = executable.Plan(planned.frame());
  if (status != DISC_OK) {
    return NotOk("plan", status, *planned.frame(), planned.run());
  }
  return LaunchResult();
}

LaunchResult RunExecutable(const Executable& executable,
                           absl::Span<const LaunchInput> inputs,
                           WeightSlots* slots, Host* host) {
  const Manifest& manifest = executable.manifest();
  std::string wrong = CheckInputs(manifest, inputs);
  if (!wrong.empty()) return Failed(std::move(wrong));
  if (slots != nullptr && slots->size() != manifest.gemms.size()) {
    return Failed("the weight slots belong to another executable");
  }

  PlannedFrame planned(executable, inputs, host);
  disc_frame_t* const frame = planned.frame();
  Run* const run = planned.run();
  const ScopedKernelMxcsr mode;
  int32_t status = executable.Plan(frame);
  if (status != DISC_OK) return NotOk("plan", status, *frame, run);

  absl::InlinedVector<void*, 8> outputs(manifest.outputs.size(), nullptr);
  absl::Status allocated = AllocateOutputs(manifest, planned.output_dims(),
                                           host, absl::MakeSpan(outputs));
  if (allocated.ok()) allocated = AllocateArenaAndScratch(run, frame);
  if (!allocated.ok()) return Failed(std::string(allocated.message()));
  frame->outputs = outputs.data();

  ResolveWeights(inputs, slots, run);
  status = executable.Run(frame);
  if (status != DISC_OK) return NotOk("run", status, *frame, run);
  return LaunchResult();
}

}  // namespace tf_disc
