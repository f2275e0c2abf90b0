#include "cc/runtime/manifest.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tf_disc {
namespace {

constexpr absl::string_view kFirstLine = "tf_disc manifest 1";
constexpr int kMaxRank = 254;  // TensorFlow's own bound
constexpr int64_t kMaxSizes = int64_t{1} << 20;
constexpr int64_t kMaxDim = int64_t{1} << 40;

constexpr struct {
  const char* name;
  disc_dtype dtype;
  int64_t size_bytes;
} kDtypes[] = {
    {"f32", DISC_F32, 4},   {"f64", DISC_F64, 8},   {"i32", DISC_I32, 4},
    {"i64", DISC_I64, 8},   {"bool", DISC_BOOL, 1}, {"i8", DISC_I8, 1},
    {"u8", DISC_U8, 1},     {"i16", DISC_I16, 2},   {"f16", DISC_F16, 2},
    {"bf16", DISC_BF16, 2},
};

bool ParseDtype(absl::string_view text, disc_dtype* dtype) {
  for (const auto& known : kDtypes) {
    if (text == known.name) {
      *dtype = known.dtype;
      return true;
    }
  }
  return false;
}

// Digits only (no sign, no blanks), at most `limit`.
bool ParseCount(absl::string_view text, int64_t limit, int64_t* value) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) {
    return false;
  }
  return absl::SimpleAtoi(text, value) && *value <= limit;
}

// One line's parser. Every Parse* returns an empty text or what is wrong.
class LineParser {
 public:
  explicit LineParser(Manifest* manifest) : manifest_(manifest) {}

  std::string Parse(absl::string_view line) {
    const std::pair<absl::string_view, absl::string_view> key_rest =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const absl::string_view key = key_rest.first;
    // A line of one word leaves a null view, which StrSplit cuts into no word
    // at all, where an empty one gives one empty word.
    const absl::string_view rest =
        key_rest.second.empty() ? absl::string_view("") : key_rest.second;
    if (key == "input") return ParseTensor(rest, &manifest_->inputs);
    if (key == "output") return ParseTensor(rest, &manifest_->outputs);
    if (key == "gemm") return ParseGemm(rest);
    if (key == "task") return ParseText(rest, &manifest_->tasks);
    if (key == "guard") return ParseText(rest, &manifest_->guards);
    if (key == "entry") return ParseEntry(rest);
    if (key == "abi" || key == "compiler" || key == "llvm" || key == "target" ||
        key == "sizes") {
      if (!seen_.insert(std::string(key)).second) {
        return absl::StrCat("a second '", key, "' line");
      }
      return ParseFact(key, rest);
    }
    return "unknown key";
  }

  // The first required key that no line gave; empty if none is missing.
  std::string Missing() const {
    for (const char* key : {"abi", "compiler", "llvm", "target", "sizes",
                            "entry plan", "entry run"}) {
      if (seen_.count(key) == 0) return key;
    }
    return "";
  }

 private:
  std::string ParseFact(absl::string_view key, absl::string_view rest) {
    int64_t value = 0;
    if (key == "abi") {
      if (!ParseCount(rest, 1 << 20, &value)) return "expected a version";
      manifest_->abi_version = static_cast<int>(value);
      return "";
    }
    if (key == "sizes") {
      if (!ParseCount(rest, kMaxSizes, &value)) return "expected a count";
      manifest_->num_sizes = value;
      return "";
    }
    const std::vector<absl::string_view> words = absl::StrSplit(rest, ' ');
    const size_t max_words = key == "target" ? 2 : 1;
    if (words.size() > max_words) {
      return absl::StrCat("expected at most ", max_words, " word(s)");
    }
    for (absl::string_view word : words) {
      if (word.empty()) return "expected a word";
    }
    if (key == "compiler") manifest_->compiler_version = std::string(words[0]);
    if (key == "llvm") manifest_->llvm_version = std::string(words[0]);
    if (key == "target") {
      manifest_->target = std::string(words[0]);
      if (words.size() == 2) manifest_->features = std::string(words[1]);
    }
    return "";
  }

  std::string ParseEntry(absl::string_view rest) {
    const std::vector<absl::string_view> words = absl::StrSplit(rest, ' ');
    if (words.size() != 2 || words[1].empty() ||
        (words[0] != "plan" && words[0] != "run")) {
      return "expected 'entry plan NAME' or 'entry run NAME'";
    }
    if (!seen_.insert(absl::StrCat("entry ", words[0])).second) {
      return absl::StrCat("a second 'entry ", words[0], "' line");
    }
    (words[0] == "plan" ? manifest_->plan_symbol : manifest_->run_symbol) =
        std::string(words[1]);
    return "";
  }

  static std::string CheckIndex(absl::string_view text, size_t expected) {
    int64_t index = 0;
    if (!ParseCount(text, kMaxSizes, &index) ||
        index != static_cast<int64_t>(expected)) {
      return absl::StrCat("expected index ", expected);
    }
    return "";
  }

  static std::string ParseTensor(absl::string_view rest,
                                 std::vector<ManifestTensor>* tensors) {
    const std::vector<absl::string_view> words = absl::StrSplit(rest, ' ');
    if (words.size() != 3) return "expected 'INDEX DTYPE RANK'";
    std::string wrong = CheckIndex(words[0], tensors->size());
    if (!wrong.empty()) return wrong;
    ManifestTensor tensor;
    int64_t rank = 0;
    if (!ParseDtype(words[1], &tensor.dtype)) return "unknown dtype";
    if (!ParseCount(words[2], kMaxRank, &rank)) return "expected a rank";
    tensor.rank = static_cast<int>(rank);
    tensors->push_back(tensor);
    return "";
  }

  std::string ParseGemm(absl::string_view rest) {
    const std::vector<absl::string_view> words = absl::StrSplit(rest, ' ');
    std::string wrong = CheckIndex(words[0], manifest_->gemms.size());
    if (!wrong.empty()) return wrong;
    ManifestGemm gemm;
    std::set<absl::string_view> given;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::pair<absl::string_view, absl::string_view> name_value =
          absl::StrSplit(words[i], absl::MaxSplits('=', 1));
      const absl::string_view name = name_value.first;
      const absl::string_view value = name_value.second;
      if (!given.insert(name).second) {
        return absl::StrCat("a second '", name, "='");
      }
      int64_t number = 0;
      bool ok = false;
      if (name == "weight") {
        ok = ParseCount(value, kMaxSizes, &number);
        gemm.weight = static_cast<int>(number);
      } else if (name == "dtype") {
        ok = ParseDtype(value, &gemm.dtype);
      } else if (name == "packed") {
        ok = ParseDtype(value, &gemm.packed);
      } else if (name == "k") {
        ok = ParseCount(value, kMaxDim, &gemm.k);
      } else if (name == "n") {
        ok = ParseCount(value, kMaxDim, &gemm.n);
      } else if (name == "transpose") {
        ok = ParseCount(value, 1, &number);
        gemm.transpose = number == 1;
      }
      if (!ok) return absl::StrCat("cannot read '", words[i], "'");
    }
    if (given.size() != 6) {
      return "expected weight=, dtype=, packed=, k=, n= and transpose=";
    }
    int64_t elements = 0;
    if (__builtin_mul_overflow(gemm.k, gemm.n, &elements) ||
        elements > kMaxDim) {
      return "k * n is too large";
    }
    manifest_->gemms.push_back(gemm);
    return "";
  }

  static std::string ParseText(absl::string_view rest,
                               std::vector<std::string>* texts) {
    const std::pair<absl::string_view, absl::string_view> index_text =
        absl::StrSplit(rest, absl::MaxSplits(' ', 1));
    std::string wrong = CheckIndex(index_text.first, texts->size());
    if (!wrong.empty()) return wrong;
    if (index_text.second.empty()) return "expected a text";
    texts->emplace_back(index_text.second);
    return "";
  }

  Manifest* const manifest_;
  std::set<std::string> seen_;
};

absl::Status Malformed(int line_number, absl::string_view line,
                       absl::string_view wrong) {
  return absl::InvalidArgumentError(
      absl::StrCat("manifest line ", line_number, " '",
                   absl::CHexEscape(line.substr(0, 120)), "': ", wrong));
}

}  // namespace

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  absl::ConsumeSuffix(&text, "\n");
  Manifest manifest;
  LineParser parser(&manifest);
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (line_number == 1) {
      if (line == kFirstLine) continue;
      return Malformed(1, line, absl::StrCat("expected '", kFirstLine, "'"));
    }
    const std::string wrong = parser.Parse(line);
    if (!wrong.empty()) return Malformed(line_number, line, wrong);
  }
  const std::string missing = parser.Missing();
  if (!missing.empty()) {
    return Malformed(line_number, "(end)",
                     absl::StrCat("no '", missing, "' line"));
  }
  for (size_t i = 0; i < manifest.gemms.size(); ++i) {
    const int weight = manifest.gemms[i].weight;
    if (weight >= static_cast<int>(manifest.inputs.size())) {
      return Malformed(line_number, "(end)",
                       absl::StrCat("gemm ", i, " names input ", weight, " of ",
                                    manifest.inputs.size()));
    }
  }
  return manifest;
}

const char* AbiDtypeName(disc_dtype dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "?";
}

int64_t AbiDtypeSize(disc_dtype dtype) {
  for (const auto& known : kDtypes) {
    if (known.dtype == dtype) return known.size_bytes;
  }
  return 0;
}

}  // namespace tf_disc
