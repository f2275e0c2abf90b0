// One compiled cluster, loaded and checked: entries, manifest, GEMMs.
#ifndef TF_DISC_CC_RUNTIME_EXECUTABLE_H_
#define TF_DISC_CC_RUNTIME_EXECUTABLE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/abi/kernel_abi.h"
#include "cc/runtime/gemm.h"
#include "cc/runtime/manifest.h"
#include "cc/runtime/object_loader.h"
#include "cc/runtime/weight_slots.h"

namespace tf_disc {

// Immutable after Load; safe to run from many threads at once.
class Executable {
 public:
  // Loads an artifact (docs/contracts.md 5). Checks ABI version, target and
  // features against this CPU, maps the code, finds the entries, and creates
  // every GEMM primitive, so that no run pays for one: call it on the thread
  // that compiles, not on one that runs. Copies what it needs of its
  // arguments.
  //
  // Errors: InvalidArgument for a malformed manifest or object (the line or the
  // offset is in the message), FailedPrecondition for another ABI version or a
  // target that this CPU lacks, Unavailable where oneDNN is missing, Internal
  // where memory or a mapping fails.
  static absl::StatusOr<std::shared_ptr<const Executable>> Load(
      absl::string_view manifest_text, absl::string_view object);

  const Manifest& manifest() const { return manifest_; }

  int32_t Plan(disc_frame_t* frame) const { return plan_(frame); }
  int32_t Run(disc_frame_t* frame) const { return run_(frame); }

  // One family of primitives for each gemm of the manifest.
  const std::vector<std::shared_ptr<const PackedGemm>>& gemms() const {
    return gemms_;
  }
  // Bytes of scratch that one participant needs for any of the gemms.
  int64_t gemm_scratch_bytes() const { return gemm_scratch_bytes_; }

  // Memory of weights for one user of this executable (a DiscLaunch node).
  std::shared_ptr<WeightSlots> NewWeightSlots() const;

  // Bytes of mapped code and constants, for reports.
  int64_t mapped_bytes() const { return object_->mapped_bytes(); }

 private:
  Executable() = default;

  Manifest manifest_;
  std::unique_ptr<const LoadedObject> object_;
  disc_plan_fn plan_ = nullptr;
  disc_run_fn run_ = nullptr;
  std::vector<std::shared_ptr<const PackedGemm>> gemms_;
  int64_t gemm_scratch_bytes_ = 0;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_EXECUTABLE_H_
