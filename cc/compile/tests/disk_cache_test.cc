#include "cc/compile/disk_cache.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tf_disc_cache_XXXXXX")
            .string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr int64_t kNoLimit = int64_t{1} << 40;

TEST(StoredIsFound) {
  Folder folder;
  const DiskCache cache(folder.path() + "/a/b", kNoLimit);
  EXPECT(cache.Find("key", 4).artifacts.empty());
  EXPECT(cache.Store({"key", "m0", "o0"}, 0).ok());
  EXPECT(cache.Store({"key", "m2", "o2"}, 2).ok());
  EXPECT(cache.Store({"other", "x", "x"}, 0).ok());
  const DiskCache::Lookup lookup = cache.Find("key", 4);
  ASSERT(lookup.artifacts.size() == 2);
  EXPECT_EQ(lookup.artifacts[0].manifest, "m0");
  EXPECT_EQ(lookup.artifacts[1].object, "o2");
  EXPECT(lookup.problems.empty());
}

TEST(OffWithoutAFolder) {
  const DiskCache cache("", kNoLimit);
  EXPECT(cache.Store({"key", "m", "o"}, 0).ok());
  EXPECT(cache.Find("key", 4).artifacts.empty());
}

TEST(ANewerFileReplaces) {
  Folder folder;
  const DiskCache cache(folder.path(), kNoLimit);
  EXPECT(cache.Store({"key", "old", "o"}, 0).ok());
  EXPECT(cache.Store({"key", "new", "o"}, 0).ok());
  const DiskCache::Lookup lookup = cache.Find("key", 1);
  ASSERT(lookup.artifacts.size() == 1);
  EXPECT_EQ(lookup.artifacts[0].manifest, "new");
}

TEST(AFileUnderAnotherKeyIsAProblem) {
  Folder folder;
  const DiskCache cache(folder.path(), kNoLimit);
  EXPECT(cache.Store({"key", "m", "o"}, 0).ok());
  std::filesystem::copy_file(cache.Path("key", 0), cache.Path("other", 0));
  const DiskCache::Lookup lookup = cache.Find("other", 4);
  EXPECT(lookup.artifacts.empty());
  ASSERT(lookup.problems.size() == 1);
  EXPECT(lookup.problems[0].find("compiled from something else") !=
         std::string::npos);
}

TEST(TheLargestFileMayStayAlone) {
  Folder folder;
  const DiskCache cache(folder.path(), 100);
  EXPECT(cache.Store({"a", "m", std::string(1000, 'o')}, 0).ok());
  EXPECT(cache.Find("a", 1).artifacts.size() == 1);
  EXPECT(cache.Store({"b", "m", std::string(1000, 'o')}, 0).ok());
  EXPECT(cache.Find("a", 1).artifacts.empty());
  EXPECT(cache.Find("b", 1).artifacts.size() == 1);
}

// Readers see whole files or none while others write the same names and trim.
TEST(ProcessesShareAFolder) {
  Folder folder;
  constexpr int kProcesses = 3;
  constexpr int kRounds = 60;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      bool good = true;
      const DiskCache cache(folder.path(), 40000);
      for (int round = 0; round < kRounds; ++round) {
        const std::string key = absl::StrCat("key", round % 5);
        const std::string body(static_cast<size_t>(1000 + round * 100), 'o');
        good &= cache.Store({key, "m", body}, round % 2).ok();
        const DiskCache::Lookup lookup = cache.Find(key, 2);
        good &= lookup.problems.empty();
        for (const Artifact& artifact : lookup.artifacts) {
          good &= artifact.key == key;
        }
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().extension().string(), ".tfda");
  }
}

}  // namespace
}  // namespace tf_disc
