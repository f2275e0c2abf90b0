#include "cc/compile/artifact_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

Artifact Example() { return {"key", "manifest", std::string("\x7f\0ELF", 5)}; }

TEST(RoundTrip) {
  const std::string bytes = EncodeArtifact(Example());
  absl::string_view rest = bytes;
  const absl::StatusOr<Artifact> artifact = DecodeArtifact(rest);
  ASSERT(artifact.ok());
  EXPECT_EQ(artifact->key, Example().key);
  EXPECT_EQ(artifact->manifest, Example().manifest);
  EXPECT_EQ(artifact->object, Example().object);
  EXPECT(rest.empty());
}

TEST(OneAfterTheOther) {
  const std::string bytes =
      EncodeArtifact({"a", "", ""}) + EncodeArtifact({"b", "m", "o"});
  absl::string_view rest = bytes;
  const absl::StatusOr<Artifact> first = DecodeArtifact(rest);
  ASSERT(first.ok());
  const absl::StatusOr<Artifact> second = DecodeArtifact(rest);
  ASSERT(second.ok());
  EXPECT_EQ(first->key, "a");
  EXPECT_EQ(second->key, "b");
  EXPECT(rest.empty());
}

TEST(EveryFlippedBitIsFound) {
  const std::string good = EncodeArtifact(Example());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    absl::string_view rest = bad;
    EXPECT(!DecodeArtifact(rest).ok());
    EXPECT_EQ(rest.size(), bad.size());
  }
}

TEST(EveryCutIsFound) {
  const std::string good = EncodeArtifact(Example());
  for (size_t size = 0; size < good.size(); ++size) {
    absl::string_view rest(good.data(), size);
    EXPECT(!DecodeArtifact(rest).ok());
  }
}

}  // namespace
}  // namespace tf_disc
