#include "cc/grappler/graph_dump.h"

#include <cctype>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/env.h"

namespace tf_disc {
namespace {

// File systems take names up to 255 bytes; functions have longer ones.
constexpr size_t kMaxNameBytes = 100;

struct DumpState {
  std::mutex mutex;
  std::string dir;
  int count = 0;
};

DumpState& State() {
  static DumpState* const state = new DumpState;
  return *state;
}

std::string FileName(const std::string& id) {
  std::string name = id.substr(0, kMaxNameBytes);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace

void SetGraphDumpDir(std::string dir) {
  const std::lock_guard<std::mutex> lock(State().mutex);
  State().dir = std::move(dir);
}

absl::Status DumpGraphs(const std::string& id,
                        const tensorflow::GraphDef& before,
                        const tensorflow::GraphDef& after) {
  std::string folder;
  {
    const std::lock_guard<std::mutex> lock(State().mutex);
    if (State().dir.empty()) return absl::OkStatus();
    folder = absl::StrCat(State().dir, "/graph_", State().count++, "_",
                          FileName(id));
  }
  tensorflow::Env* const env = tensorflow::Env::Default();
  absl::Status status = env->RecursivelyCreateDir(folder);
  if (status.ok()) {
    status = tensorflow::WriteTextProto(
        env, absl::StrCat(folder, "/before.pbtxt"), before);
  }
  if (status.ok()) {
    status = tensorflow::WriteTextProto(
        env, absl::StrCat(folder, "/after.pbtxt"), after);
  }
  return status;
}

}  // namespace tf_disc
