#include "cc/runtime/manifest.h"

#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/testing/check.h"

namespace tf_disc {
namespace {

constexpr char kGood[] =
    "tf_disc manifest 1\n"
    "abi 1\n"
    "compiler 0.1.0\n"
    "llvm 22.1.0\n"
    "target x86-64-v4 +avx512bf16,+amx-tile\n"
    "entry plan disc_plan\n"
    "entry run disc_run\n"
    "sizes 12\n"
    "input 0 f32 3\n"
    "input 1 f32 2\n"
    "output 0 bf16 0\n"
    "gemm 0 weight=1 dtype=f32 packed=bf16 k=384 n=1536 transpose=1\n"
    "task 0 gemm_bias_gelu(layer/dense) and more\n"
    "guard 0 x.dim(1) == mask.dim(1)\n";

std::string Replace(std::string text, const std::string& from,
                    const std::string& to) {
  const size_t at = text.find(from);
  return at == text.npos ? "" : text.replace(at, from.size(), to);
}

// The message of the error that `text` gives; empty if it is accepted.
std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Manifest> parsed = ParseManifest(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(ReadsEveryFact) {
  const absl::StatusOr<Manifest> parsed = ParseManifest(kGood);
  ASSERT(parsed.ok());
  EXPECT_EQ(parsed->abi_version, 1);
  EXPECT_EQ(parsed->compiler_version, "0.1.0");
  EXPECT_EQ(parsed->llvm_version, "22.1.0");
  EXPECT_EQ(parsed->target, "x86-64-v4");
  EXPECT_EQ(parsed->features, "+avx512bf16,+amx-tile");
  EXPECT_EQ(parsed->plan_symbol, "disc_plan");
  EXPECT_EQ(parsed->run_symbol, "disc_run");
  EXPECT_EQ(parsed->num_sizes, 12);
  ASSERT(parsed->inputs.size() == 2 && parsed->outputs.size() == 1);
  EXPECT_EQ(parsed->inputs[0].rank, 3);
  EXPECT(parsed->outputs[0].dtype == DISC_BF16);
  ASSERT(parsed->gemms.size() == 1);
  EXPECT_EQ(parsed->gemms[0].weight, 1);
  EXPECT_EQ(parsed->gemms[0].k, 384);
  EXPECT_EQ(parsed->gemms[0].n, 1536);
  EXPECT(parsed->gemms[0].dtype == DISC_F32);
  EXPECT(parsed->gemms[0].packed == DISC_BF16);
  EXPECT(parsed->gemms[0].transpose);
  ASSERT(parsed->tasks.size() == 1 && parsed->guards.size() == 1);
  EXPECT_EQ(parsed->tasks[0], "gemm_bias_gelu(layer/dense) and more");
  EXPECT_EQ(parsed->guards[0], "x.dim(1) == mask.dim(1)");
}

TEST(TargetWithoutFeaturesAndNoEndOfLine) {
  std::string text = Replace(kGood, " +avx512bf16,+amx-tile", "");
  text.pop_back();
  const absl::StatusOr<Manifest> parsed = ParseManifest(text);
  ASSERT(parsed.ok());
  EXPECT_EQ(parsed->features, "");
}

TEST(SaysWhichLineIsWrongAndWhy) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } kCases[] = {
      {"manifest 1", "manifest 2", "line 1 'tf_disc manifest 2': expected"},
      {"abi 1", "abi one", "line 2 'abi one': expected a version"},
      {"abi 1", "abi -1", "expected a version"},
      {"abi 1\n", "", "no 'abi' line"},
      {"abi 1\n", "abi 1\nabi 1\n", "line 3 'abi 1': a second 'abi' line"},
      {"abi 1\n", "abi 1\n\n", "line 3 '': unknown key"},
      {"abi 1\n", "abi 1\r\n", "expected a version"},
      {"sizes 12", "sizes 99999999999999999999", "expected a count"},
      {"sizes 12", "colour 12", "unknown key"},
      {"compiler 0.1.0", "compiler ", "expected a word"},
      {"compiler 0.1.0", "compiler a b", "expected at most 1 word"},
      {"entry plan", "entry stop", "expected 'entry plan NAME'"},
      {"entry run disc_run\n", "", "no 'entry run' line"},
      {"entry run", "entry plan", "a second 'entry plan' line"},
      {"input 1", "input 2", "line 10 'input 2 f32 2': expected index 1"},
      {"input 0 f32 3", "input 0 f32 255", "expected a rank"},
      {"input 0 f32 3", "input 0 f31 3", "unknown dtype"},
      {"input 0 f32 3", "input 0 f32", "expected 'INDEX DTYPE RANK'"},
      {"weight=1", "weight=2", "gemm 0 names input 2 of 2"},
      {" k=384", "",
       "expected weight=, dtype=, packed=, k=, n= and transpose="},
      {" k=384", " k=384 k=384", "a second 'k='"},
      {"transpose=1", "transpose=2", "cannot read 'transpose=2'"},
      {"packed=bf16", "packed=bf17", "cannot read 'packed=bf17'"},
      {"k=384", "q=384", "cannot read 'q=384'"},
      {"k=384 n=1536", "k=1000000000 n=1000000000", "k * n is too large"},
      {"task 0 gemm_bias_gelu(layer/dense) and more", "task 0",
       "expected a text"},
      {"guard 0", "guard 1", "expected index 0"},
  };
  for (const auto& test : kCases) {
    const std::string text = Replace(kGood, test.from, test.to);
    ASSERT(!text.empty());
    const std::string error = ErrorOf(text);
    if (!absl::StrContains(error, test.message)) {
      testing::Fail(
          __FILE__, __LINE__,
          absl::StrCat("expected '", test.message, "' in '", error, "'"));
    }
  }
}

TEST(RubbishIsAStatus) {
  EXPECT(!ErrorOf("").empty());
  EXPECT(!ErrorOf(std::string(1000, '\0')).empty());
  EXPECT(!ErrorOf("\n\n\n").empty());
  const std::string good = kGood;
  // Every truncation that loses a required fact; others may be manifests.
  const size_t required = good.find("sizes 12") + 7;
  for (size_t size = 0; size < good.size(); ++size) {
    const bool rejected = !ErrorOf(good.substr(0, size)).empty();
    if (!rejected && size < required) {
      testing::Fail(__FILE__, __LINE__,
                    absl::StrCat("accepted the first ", size, " bytes"));
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int flips = 0; flips < 3; ++flips) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    (void)ParseManifest(text).ok();  // must return
  }
}

}  // namespace
}  // namespace tf_disc
