#include "cc/bindings/replay.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/runtime/host.h"
#include "cc/runtime/launch_frame.h"

namespace tf_disc {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory Allocate(int64_t bytes) {
  // aligned_alloc wants a multiple of the alignment.
  const size_t rounded = (static_cast<size_t>(bytes) + 64) / 64 * 64;
  return Memory(std::aligned_alloc(64, rounded));
}

// No pool: every loop runs on the caller.
class ReplayHost : public Host {
 public:
  int NumThreads() const override { return 0; }
  void Schedule(std::function<void()> fn) override { fn(); }

  absl::StatusOr<void*> AllocateOutput(
      int /*index*/, disc_dtype dtype,
      absl::Span<const int64_t> dims) override {
    Output output{dtype, {dims.begin(), dims.end()}, AbiDtypeSize(dtype), {}};
    for (const int64_t dim : dims) output.bytes *= dim;
    output.memory = Allocate(output.bytes);
    if (output.memory == nullptr) return OutOfMemory(output.bytes);
    outputs_.push_back(std::move(output));
    return outputs_.back().memory.get();
  }

  absl::StatusOr<void*> AllocateTemporary(int64_t bytes) override {
    temporaries_.push_back(Allocate(bytes));
    if (temporaries_.back() == nullptr) return OutOfMemory(bytes);
    return temporaries_.back().get();
  }

  std::unique_ptr<BufferHold> HoldInput(int /*index*/) override {
    return nullptr;
  }

  std::vector<ReplayTensor> TakeOutputs() const {
    std::vector<ReplayTensor> tensors;
    for (const Output& output : outputs_) {
      tensors.push_back({output.dtype, output.dims,
                         std::string(static_cast<char*>(output.memory.get()),
                                     static_cast<size_t>(output.bytes))});
    }
    return tensors;
  }

 private:
  struct Output {
    disc_dtype dtype;
    std::vector<int64_t> dims;
    int64_t bytes;
    Memory memory;
  };

  static absl::Status OutOfMemory(int64_t bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes"));
  }

  std::vector<Output> outputs_;
  std::vector<Memory> temporaries_;
};

absl::Status CheckInputs(const Manifest& manifest,
                         const std::vector<ReplayTensor>& inputs) {
  if (inputs.size() != manifest.inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(inputs.size(), " inputs, expected ",
                     manifest.inputs.size(), " as the manifest says"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ManifestTensor& expected = manifest.inputs[i];
    const int rank = static_cast<int>(inputs[i].dims.size());
    if (inputs[i].dtype != expected.dtype || rank != expected.rank) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, " is ", AbiDtypeName(inputs[i].dtype), " of rank ", rank,
          ", expected ", AbiDtypeName(expected.dtype), " of rank ",
          expected.rank));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ReplayTensor>> Replay(
    const Executable& executable, const std::vector<ReplayTensor>& inputs) {
  const absl::Status status = CheckInputs(executable.manifest(), inputs);
  if (!status.ok()) return status;
  std::vector<LaunchInput> launch_inputs;
  for (const ReplayTensor& input : inputs) {
    LaunchInput launch_input;
    launch_input.data = input.bytes.data();
    launch_input.dims = input.dims;
    launch_input.dtype = input.dtype;
    launch_inputs.push_back(launch_input);
  }
  ReplayHost host;
  const LaunchResult result =
      RunExecutable(executable, launch_inputs, /*slots=*/nullptr, &host);
  switch (result.outcome) {
    case LaunchOutcome::kDone:
      return host.TakeOutputs();
    case LaunchOutcome::kGuardFailed:
      return absl::FailedPreconditionError(
          absl::StrCat("a guard failed: ", result.reason));
    case LaunchOutcome::kFailed:
      break;
  }
  return absl::InternalError(result.reason);
}

}  // namespace tf_disc
