// oneDNN, loaded at first use and called on one thread.
#ifndef TF_DISC_CC_RUNTIME_DNNL_LIBRARY_H_
#define TF_DISC_CC_RUNTIME_DNNL_LIBRARY_H_

#include <dnnl.h>

#include <string>

#include "absl/status/statusor.h"

namespace tf_disc {

// The entry points that the runtime uses, X(name) for dnnl_name.
#define TF_DISC_DNNL_ENTRY_POINTS(X)    \
  X(engine_create)                      \
  X(stream_create)                      \
  X(stream_destroy)                     \
  X(memory_create)                      \
  X(memory_destroy)                     \
  X(memory_set_data_handle)             \
  X(memory_desc_create_with_strides)    \
  X(memory_desc_create_with_tag)        \
  X(memory_desc_clone)                  \
  X(memory_desc_destroy)                \
  X(memory_desc_query)                  \
  X(memory_desc_get_size)               \
  X(primitive_attr_create)              \
  X(primitive_attr_destroy)             \
  X(primitive_attr_set_scratchpad_mode) \
  X(matmul_primitive_desc_create)       \
  X(reorder_primitive_desc_create)      \
  X(primitive_desc_query)               \
  X(primitive_desc_query_md)            \
  X(primitive_desc_destroy)             \
  X(primitive_create)                   \
  X(primitive_destroy)                  \
  X(primitive_execute)                  \
  X(sgemm)                              \
  X(version)

// Function pointers of the loaded library. Immutable, never unloaded.
struct DnnlLibrary {
#define TF_DISC_DNNL_POINTER(name) decltype(&::dnnl_##name) name = nullptr;
  TF_DISC_DNNL_ENTRY_POINTS(TF_DISC_DNNL_POINTER)
#undef TF_DISC_DNNL_POINTER
  // Of the OpenMP library that this oneDNN uses. Their count is per thread.
  void (*omp_set_num_threads)(int) = nullptr;
  int (*omp_get_max_threads)() = nullptr;

  dnnl_engine_t engine = nullptr;  // the process's CPU; thread-safe
  std::string path;                // where it was found
};

// Sets this thread's OpenMP count to 1 for its lifetime. One must be alive
// around EVERY oneDNN call, creation included, where the count is baked in:
// otherwise oneDNN starts a team of threads beside TensorFlow's.
class OmpOneThread {
 public:
  explicit OmpOneThread(const DnnlLibrary& dnnl)
      : dnnl_(dnnl), old_(dnnl.omp_get_max_threads()) {
    if (old_ != 1) dnnl_.omp_set_num_threads(1);
  }
  ~OmpOneThread() {
    if (old_ != 1) dnnl_.omp_set_num_threads(old_);
  }
  OmpOneThread(const OmpOneThread&) = delete;
  OmpOneThread& operator=(const OmpOneThread&) = delete;

 private:
  const DnnlLibrary& dnnl_;
  const int old_;
};

// The library; loaded by the first call, from the first of
//   1. SetDnnlLibraryPath,
//   2. the file that the environment's TF_DISC_DNNL_LIBRARY names,
//   3. libtf_disc_dnnl.so.3 beside the library that this code is in.
// The result, an Unavailable error included, is kept. Thread-safe.
absl::StatusOr<const DnnlLibrary*> GetDnnlLibrary();

// For tests: load `path` from now on; forgets an earlier error. An already
// loaded library stays loaded, as primitives use it. "" goes back to 2 and 3.
void SetDnnlLibraryPath(const std::string& path);

// "dnnl_invalid_arguments" and so on, for messages.
const char* DnnlStatusName(dnnl_status_t status);

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_DNNL_LIBRARY_H_
