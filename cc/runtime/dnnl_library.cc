#include "cc/runtime/dnnl_library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf_disc {
namespace {

constexpr char kFileName[] = "libtf_disc_dnnl.so.3";
constexpr char kPathVariable[] = "TF_DISC_DNNL_LIBRARY";

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

// The file that holds this very code, as the loader knows it.
std::string OwnPath() {
  static const char kAnchor = 0;
  Dl_info info;
  if (dladdr(&kAnchor, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

std::string DefaultPath() {
  const char* const named = std::getenv(kPathVariable);
  if (named != nullptr && *named != '\0') return named;
  return absl::StrCat(DirectoryOf(OwnPath()), "/", kFileName);
}

std::string TakeDlError() {
  const char* const error = dlerror();
  return error == nullptr ? "unknown error" : error;
}

template <typename Function>
bool Resolve(void* handle, const char* name, Function* function) {
  // dlsym gives a data pointer; POSIX says that it converts.
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

absl::StatusOr<std::unique_ptr<const DnnlLibrary>> Load(
    const std::string& path) {
  // Never unloaded: OpenMP and per-thread objects have no safe end.
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  void* const handle = dlopen(path.c_str(), kFlags);
  if (handle == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot load oneDNN: ", TakeDlError()));
  }
  auto library = std::make_unique<DnnlLibrary>();
  library->path = path;
  const char* missing = nullptr;
#define TF_DISC_DNNL_RESOLVE(name)                     \
  if (!Resolve(handle, "dnnl_" #name, &library->name)) \
    missing =                                          \
        "dnnl"                                         \
        "_" #name;
  TF_DISC_DNNL_ENTRY_POINTS(TF_DISC_DNNL_RESOLVE)
#undef TF_DISC_DNNL_RESOLVE
  // The OpenMP that answers oneDNN's own calls. Bound at dlopen, and the
  // process's global scope came first: PyTorch, for one, opens its OpenMP with
  // RTLD_GLOBAL. Setting the count of another copy would set nothing.
  void* const omp = dlsym(RTLD_DEFAULT, "omp_set_num_threads") != nullptr
                        ? RTLD_DEFAULT
                        : handle;
  if (!Resolve(omp, "omp_set_num_threads", &library->omp_set_num_threads)) {
    missing = "omp_set_num_threads";
  }
  if (!Resolve(omp, "omp_get_max_threads", &library->omp_get_max_threads)) {
    missing = "omp_get_max_threads";
  }
  if (missing != nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "oneDNN at ", path, " has no ", missing,
        "; expected oneDNN 3 built with OpenMP (onednn-cpu-gomp)"));
  }
  if (library->version()->major != DNNL_VERSION_MAJOR) {
    return absl::UnavailableError(absl::StrCat(
        "oneDNN at ", path, " has version ", library->version()->major, ".",
        library->version()->minor, "; expected ", DNNL_VERSION_MAJOR, ".x"));
  }
  const OmpOneThread one_thread(*library);
  const dnnl_status_t status =
      library->engine_create(&library->engine, dnnl_cpu, 0);
  if (status != dnnl_success) {
    return absl::UnavailableError(absl::StrCat(
        "oneDNN at ", path, " has no CPU engine: ", DnnlStatusName(status)));
  }
  return std::unique_ptr<const DnnlLibrary>(std::move(library));
}

using Loaded = absl::StatusOr<std::unique_ptr<const DnnlLibrary>>;

struct Registry {
  // The library once it is loaded: what every call after the first reads.
  std::atomic<const DnnlLibrary*> current{nullptr};
  std::mutex mutex;
  std::string path;                       // set for tests
  std::map<std::string, Loaded> by_path;  // libraries stay for good
};

Registry& GetRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

absl::StatusOr<const DnnlLibrary*> GetDnnlLibrary() {
  Registry& registry = GetRegistry();
  const DnnlLibrary* const current =
      registry.current.load(std::memory_order_acquire);
  if (current != nullptr) return current;
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const std::string path =
      registry.path.empty() ? DefaultPath() : registry.path;
  auto found = registry.by_path.find(path);
  if (found == registry.by_path.end()) {
    found = registry.by_path.emplace(path, Load(path)).first;
  }
  if (!found->second.ok()) return found->second.status();
  registry.current.store(found->second->get(), std::memory_order_release);
  return found->second->get();
}

void SetDnnlLibraryPath(const std::string& path) {
  Registry& registry = GetRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.path = path;
  registry.current.store(nullptr, std::memory_order_release);
  for (auto it = registry.by_path.begin(); it != registry.by_path.end();) {
    it = it->second.ok() ? std::next(it) : registry.by_path.erase(it);
  }
}

const char* DnnlStatusName(dnnl_status_t status) {
  switch (status) {
    case dnnl_success:
      return "success";
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "unimplemented";
    case dnnl_last_impl_reached:
      return "no implementation";
    case dnnl_runtime_error:
      return "runtime error";
    case dnnl_not_required:
      return "not required";
    default:
      return "unknown status";
  }
}

}  // namespace tf_disc
