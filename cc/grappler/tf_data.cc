#include "cc/grappler/tf_data.h"

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "cc/grappler/outline.h"

namespace tf_disc {
namespace {

struct State {
  absl::Mutex mutex;
  absl::flat_hash_set<std::string> names ABSL_GUARDED_BY(mutex);
};

State& GetState() {
  static State* state = new State;
  return *state;
}

bool IsMarked(const tensorflow::FunctionDef& function) {
  const auto found = function.attr().find("_tf_data_function");
  return found != function.attr().end() && found->second.b() &&
         !IsOutlinedFunctionName(function.signature().name());
}

}  // namespace

bool IsTfDataFunction(absl::string_view name,
                      const tensorflow::FunctionDefLibrary& library) {
  // "__inference_Dataset_map_<lambda>_12" and alike.
  if (absl::StartsWith(name, "Dataset_") ||
      absl::StrContains(name, "_Dataset_")) {
    return true;
  }
  for (const tensorflow::FunctionDef& function : library.function()) {
    if (function.signature().name() == name) return IsMarked(function);
  }
  return false;
}

void RememberTfDataFunctions(absl::string_view graph,
                             const tensorflow::FunctionDefLibrary& library) {
  const bool all = IsTfDataFunction(graph, library);
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  for (const tensorflow::FunctionDef& function : library.function()) {
    if (all || IsMarked(function)) {
      state.names.insert(function.signature().name());
    }
  }
}

bool IsCalledFromTfData(absl::string_view name) {
  State& state = GetState();
  absl::MutexLock lock(&state.mutex);
  return state.names.contains(name);
}

}  // namespace tf_disc
