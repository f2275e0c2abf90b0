#include "cc/ops/launch_dump.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/ops/npy_file.h"

namespace tf_disc {
namespace {

constexpr int kMaxFolders = 10000;

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace

absl::StatusOr<std::string> WriteLaunchDump(
    const std::string& dump_dir, const std::string& cluster_id,
    const std::string& cluster_json,
    absl::Span<const tensorflow::Tensor* const> inputs) {
  std::error_code error;
  std::filesystem::create_directories(dump_dir, error);
  std::string folder;
  for (int n = 0; n < kMaxFolders && !error; ++n) {
    const std::string candidate =
        absl::StrCat(dump_dir, "/", cluster_id, "_", n);
    // False without an error where it exists: another launch's, or process's.
    if (std::filesystem::create_directory(candidate, error)) {
      folder = candidate;
      break;
    }
  }
  if (folder.empty()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder for ", cluster_id, " in ", dump_dir,
                     ": ", error ? error.message() : "too many"));
  }
  absl::Status status =
      WriteFile(absl::StrCat(folder, "/cluster.json"), cluster_json);
  for (size_t i = 0; i < inputs.size() && status.ok(); ++i) {
    const absl::StatusOr<std::string> npy = EncodeNpy(*inputs[i]);
    status = npy.ok()
                 ? WriteFile(absl::StrCat(folder, "/input_", i, ".npy"), *npy)
                 : npy.status();
  }
  if (!status.ok()) return status;
  return folder;
}

}  // namespace tf_disc
