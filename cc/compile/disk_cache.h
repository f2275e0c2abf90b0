// Compiled kernels on disk, shared by all processes of a user: one file an
// artifact, written under a temporary name and renamed, so that a reader sees a
// whole file or none. Nothing here locks; every bad file is a miss.
#ifndef TF_DISC_CC_COMPILE_DISK_CACHE_H_
#define TF_DISC_CC_COMPILE_DISK_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/compile/artifact_file.h"

namespace tf_disc {

class DiskCache {
 public:
  // `folder` empty: every lookup misses and every store does nothing.
  DiskCache(std::string folder, int64_t limit_bytes);

  struct Lookup {
    std::vector<Artifact> artifacts;  // variant 0, 1, … as far as they are good
    std::vector<std::string> problems;  // files that were damaged, in words
  };

  // The artifacts that were stored under `key`, variants 0 to `max_variants`
  // - 1. A file with another key, a damaged one or one that cannot be read
  // counts as absent and is named in `problems`. Marks what it finds as used
  // now.
  Lookup Find(absl::string_view key, int max_variants) const;

  // Writes variant `variant` of artifact.key, then trims the folder to its
  // limit, the entries that were used longest ago first. An error names file
  // and cause; the cache is then as it was.
  absl::Status Store(const Artifact& artifact, int variant) const;

  // The file of one entry, for messages and tests.
  std::string Path(absl::string_view key, int variant) const;

  bool enabled() const { return !folder_.empty(); }

 private:
  void Trim(const std::string& keep) const;

  const std::string folder_;
  const int64_t limit_bytes_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_DISK_CACHE_H_
