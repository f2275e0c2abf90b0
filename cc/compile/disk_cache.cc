#include "cc/compile/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/compile/sha256.h"

namespace tf_disc {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kSuffix = ".tfda";
constexpr absl::string_view kTemporaryMark = ".tfda.tmp.";
// A temporary file this old was left by a process that died while writing.
constexpr int64_t kTemporaryLifetimeSeconds = 3600;

std::string ErrnoText(int error) {
  return std::error_code(error, std::generic_category()).message();
}

// Whole file, or an error: NotFound when there is none.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(path);
    return absl::UnavailableError(ErrnoText(error));
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::UnavailableError("it is not a regular file");
  }
  std::string bytes;
  bytes.resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  int error = 0;
  while (done < bytes.size()) {
    const ssize_t n = read(fd, &bytes[done], bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  if (error != 0) return absl::UnavailableError(ErrnoText(error));
  bytes.resize(done);
  return bytes;
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                      S_IRUSR | S_IWUSR);
  if (fd < 0) return absl::UnavailableError(ErrnoText(errno));
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (close(fd) != 0 && error == 0) error = errno;
  if (error != 0) return absl::UnavailableError(ErrnoText(error));
  return absl::OkStatus();
}

}  // namespace

DiskCache::DiskCache(std::string folder, int64_t limit_bytes)
    : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

std::string DiskCache::Path(absl::string_view key, int variant) const {
  return absl::StrCat(folder_, "/", Sha256Hex(key), "-", variant, kSuffix);
}

DiskCache::Lookup DiskCache::Find(absl::string_view key,
                                  int max_variants) const {
  Lookup lookup;
  if (!enabled()) return lookup;
  for (int variant = 0; variant < max_variants; ++variant) {
    const std::string path = Path(key, variant);
    absl::StatusOr<std::string> bytes = ReadFile(path);
    // A variant may have been trimmed while a later one is still there.
    if (absl::IsNotFound(bytes.status())) continue;
    const auto problem = [&](absl::string_view what) {
      lookup.problems.push_back(
          absl::StrCat("cache file ", path, " was not used: ", what));
    };
    if (!bytes.ok()) {
      problem(bytes.status().message());
      continue;
    }
    absl::string_view rest = *bytes;
    absl::StatusOr<Artifact> artifact = DecodeArtifact(rest);
    if (!artifact.ok()) {
      problem(artifact.status().message());
    } else if (!rest.empty()) {
      problem(absl::StrCat(rest.size(), " bytes follow its end"));
    } else if (artifact->key != key) {
      problem("it was compiled from something else");
    } else {
      lookup.artifacts.push_back(*std::move(artifact));
      // Trimming goes by the time of the last use. A cache that cannot be
      // written can still be read, so a failure here changes nothing.
      utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    }
  }
  return lookup;
}

absl::Status DiskCache::Store(const Artifact& artifact, int variant) const {
  if (!enabled()) return absl::OkStatus();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot make the cache folder ",
                                               folder_, ": ", error.message()));
  }
  static std::atomic<int64_t> counter{0};
  const std::string path = Path(artifact.key, variant);
  const std::string temporary =
      absl::StrCat(absl::StripSuffix(path, kSuffix), kTemporaryMark, getpid(),
                   ".", std::time(nullptr), ".", counter.fetch_add(1));
  absl::Status status = WriteFile(temporary, EncodeArtifact(artifact));
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::UnavailableError(ErrnoText(errno));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write the cache file ",
                                               path, ": ", status.message()));
  }
  Trim(path);
  return absl::OkStatus();
}

void DiskCache::Trim(const std::string& keep) const {
  struct Entry {
    std::string path;
    int64_t bytes;
    int64_t used_ns;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  // Other processes add and remove files meanwhile: what is gone is skipped.
  for (fs::directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    const std::string name = it->path().filename().string();
    const bool temporary = absl::StrContains(name, kTemporaryMark);
    if (!temporary && !absl::EndsWith(name, kSuffix)) continue;
    struct stat info;
    if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (temporary) {
      if (std::time(nullptr) - info.st_mtime > kTemporaryLifetimeSeconds) {
        unlink(path.c_str());
      }
      continue;
    }
    total += info.st_size;
    if (path == keep) continue;
    entries.push_back(
        {path, static_cast<int64_t>(info.st_size),
         int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec});
  }
  if (total <= limit_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.used_ns < b.used_ns;
  });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) break;
    if (unlink(entry.path.c_str()) == 0) total -= entry.bytes;
  }
}

}  // namespace tf_disc
