#include "cc/compile/artifact_file.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/compile/little_endian.h"
#include "cc/compile/sha256.h"

namespace tf_disc {
namespace {

constexpr absl::string_view kMagic = "TFDA";
constexpr size_t kDigestBytes = 32;
constexpr size_t kHeaderBytes = 4 + sizeof(uint32_t) + kDigestBytes;

void AppendPart(absl::string_view part, std::string* bytes) {
  AppendLittleEndian<uint64_t>(part.size(), bytes);
  bytes->append(part.data(), part.size());
}

// Takes a part off the front of `rest`; false when it leads outside.
bool TakePart(absl::string_view* rest, std::string* part) {
  if (rest->size() < sizeof(uint64_t)) return false;
  const auto length = ReadLittleEndian<uint64_t>(*rest, 0);
  rest->remove_prefix(sizeof(uint64_t));
  if (length > rest->size()) return false;
  part->assign(rest->data(), length);
  rest->remove_prefix(length);
  return true;
}

}  // namespace

std::string EncodeArtifact(const Artifact& artifact) {
  std::string body;
  AppendPart(artifact.key, &body);
  AppendPart(artifact.manifest, &body);
  AppendPart(artifact.object, &body);
  std::string bytes(kMagic);
  AppendLittleEndian<uint32_t>(kArtifactFileVersion, &bytes);
  bytes += Sha256(body);
  bytes += body;
  return bytes;
}

absl::StatusOr<Artifact> DecodeArtifact(absl::string_view& bytes) {
  if (bytes.size() < kHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("it has ", bytes.size(), " bytes, fewer than a header"));
  }
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("it does not begin with TFDA");
  }
  const auto version = ReadLittleEndian<uint32_t>(bytes, kMagic.size());
  if (version != kArtifactFileVersion) {
    return absl::DataLossError(absl::StrCat(
        "its version is ", version, ", expected ", kArtifactFileVersion));
  }
  const absl::string_view digest =
      bytes.substr(kHeaderBytes - kDigestBytes, kDigestBytes);
  const absl::string_view body = bytes.substr(kHeaderBytes);
  absl::string_view rest = body;
  Artifact artifact;
  if (!TakePart(&rest, &artifact.key) || !TakePart(&rest, &artifact.manifest) ||
      !TakePart(&rest, &artifact.object)) {
    return absl::DataLossError("it is cut short");
  }
  if (Sha256(body.substr(0, body.size() - rest.size())) != digest) {
    return absl::DataLossError("its SHA-256 does not match");
  }
  bytes = rest;
  return artifact;
}

}  // namespace tf_disc
