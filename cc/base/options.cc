#include "cc/base/options.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"

namespace tf_disc {
namespace {

struct State {
  absl::Mutex mutex;
  // The first layer is the process's own.
  std::vector<OptionMap> layers ABSL_GUARDED_BY(mutex) =
      std::vector<OptionMap>(1);
};

State& GetState() {
  // Never destroyed: threads may still ask while the process exits.
  static State* state = new State;
  return *state;
}

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"%", "%25"}, {";", "%3B"}, {"=", "%3D"}});
}

std::string Unescaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"%25", "%"}, {"%3B", ";"}, {"%3D", "="}});
}

}  // namespace

void SetOption(absl::string_view name, absl::string_view value) {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  state.layers.front()[std::string(name)] = std::string(value);
}

void PushOptions(OptionMap layer) {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  state.layers.push_back(std::move(layer));
}

bool PopOptions() {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  if (state.layers.size() == 1) return false;
  state.layers.pop_back();
  return true;
}

OptionMap CurrentOptions() {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  OptionMap merged;
  for (const OptionMap& layer : state.layers) {
    for (const auto& [name, value] : layer) merged[name] = value;
  }
  return merged;
}

std::string CurrentOption(absl::string_view name, absl::string_view fallback) {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  for (auto layer = state.layers.rbegin(); layer != state.layers.rend();
       ++layer) {
    const auto found = layer->find(std::string(name));
    if (found != layer->end()) return found->second;
  }
  return std::string(fallback);
}

std::string OptionsText(const OptionMap& options) {
  std::string text;
  for (const auto& [name, value] : options) {
    absl::StrAppend(&text, text.empty() ? "" : ";", Escaped(name), "=",
                    Escaped(value));
  }
  return text;
}

absl::StatusOr<OptionMap> ParseOptions(absl::string_view text) {
  OptionMap options;
  if (text.empty()) return options;
  for (absl::string_view pair : absl::StrSplit(text, ';')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(pair, '=');
    if (parts.size() != 2 || parts[0].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tf_disc: options text has \"", pair,
                       "\" where name=value was expected, in \"", text, "\""));
    }
    options[Unescaped(parts[0])] = Unescaped(parts[1]);
  }
  return options;
}

}  // namespace tf_disc
