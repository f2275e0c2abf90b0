#include "cc/runtime/executable.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/runtime/cpu_features.h"

namespace tf_disc {
namespace {

template <typename Function>
absl::Status FindEntry(const LoadedObject& object, const std::string& name,
                       Function* entry) {
  absl::StatusOr<void*> found = object.FindFunction(name);
  if (!found.ok()) return found.status();
  *entry = reinterpret_cast<Function>(*found);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Executable>> Executable::Load(
    absl::string_view manifest_text, absl::string_view object) {
  absl::StatusOr<Manifest> manifest = ParseManifest(manifest_text);
  if (!manifest.ok()) return manifest.status();
  if (manifest->abi_version != DISC_ABI_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat("compiled for kernel ABI ", manifest->abi_version,
                     ", this runtime has ", DISC_ABI_VERSION));
  }
  absl::Status status =
      CheckRunsOn(HostCpu(), manifest->target, manifest->features);
  if (!status.ok()) return status;

  std::shared_ptr<Executable> executable(new Executable);
  executable->manifest_ = *std::move(manifest);
  absl::StatusOr<std::unique_ptr<const LoadedObject>> loaded =
      LoadedObject::Load(object);
  if (!loaded.ok()) return loaded.status();
  executable->object_ = *std::move(loaded);
  status = FindEntry(*executable->object_, executable->manifest_.plan_symbol,
                     &executable->plan_);
  if (!status.ok()) return status;
  status = FindEntry(*executable->object_, executable->manifest_.run_symbol,
                     &executable->run_);
  if (!status.ok()) return status;

  for (const ManifestGemm& use : executable->manifest_.gemms) {
    const disc_dtype stored = executable->manifest_.inputs[use.weight].dtype;
    if (stored != use.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          "manifest: a gemm of ", AbiDtypeName(use.dtype), " with input ",
          use.weight, ", which is ", AbiDtypeName(stored)));
    }
    absl::StatusOr<std::shared_ptr<const PackedGemm>> gemm =
        PackedGemm::Get(use.n, use.k, use.packed);
    if (!gemm.ok()) return gemm.status();
    executable->gemm_scratch_bytes_ =
        std::max(executable->gemm_scratch_bytes_, (*gemm)->scratch_bytes());
    executable->gemms_.push_back(*std::move(gemm));
  }
  return std::shared_ptr<const Executable>(std::move(executable));
}

std::shared_ptr<WeightSlots> Executable::NewWeightSlots() const {
  return std::make_shared<WeightSlots>(gemms_.size());
}

}  // namespace tf_disc
