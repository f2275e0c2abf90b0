// The artifact file of docs/contracts.md 5: one compiled kernel as bytes, in
// the disk cache and in the `artifact` attribute of a DiscLaunch node (there
// one after the other).
#ifndef TF_DISC_CC_COMPILE_ARTIFACT_FILE_H_
#define TF_DISC_CC_COMPILE_ARTIFACT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tf_disc {

inline constexpr uint32_t kArtifactFileVersion = 1;

// A compiled kernel before it is loaded.
struct Artifact {
  std::string key;       // what it was compiled from, and by what
  std::string manifest;  // docs/contracts.md 5
  std::string object;    // ELF relocatable object
};

// `TFDA` u32 version, SHA-256 of the rest, then key, manifest and object, each
// after its u64 length; little-endian.
std::string EncodeArtifact(const Artifact& artifact);

// Takes one artifact off the front of `bytes`. DataLoss says what is wrong with
// them (then `bytes` is as it was): too short, another version, a length that
// leads outside, a SHA-256 that does not match.
absl::StatusOr<Artifact> DecodeArtifact(absl::string_view& bytes);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_ARTIFACT_FILE_H_
