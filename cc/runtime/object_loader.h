// Loads an ELF64 x86-64 relocatable object without a linker.
#ifndef TF_DISC_CC_RUNTIME_OBJECT_LOADER_H_
#define TF_DISC_CC_RUNTIME_OBJECT_LOADER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tf_disc {

// A mapped object: text is read and execute, everything else as its section
// says. Unmapped on destruction; nothing may run in it then.
class LoadedObject {
 public:
  // `object`: bytes as LLVM emits them (reloc=pic or static, code model small).
  // Handled: R_X86_64_64, PC32, PLT32, PC64, 32S and 32 where the value fits,
  // GOTPCREL, GOTPCRELX, REX_GOTPCRELX, against symbols that the object itself
  // defines. Each offset and size is checked; InvalidArgument says what was
  // found where. An undefined symbol is an error that names it.
  static absl::StatusOr<std::unique_ptr<const LoadedObject>> Load(
      absl::string_view object);

  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  // The address of a global function, or NotFound.
  absl::StatusOr<void*> FindFunction(absl::string_view name) const;

  int64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  LoadedObject(void* base, int64_t mapped_bytes,
               std::map<std::string, void*> functions);

  void* const base_;
  const int64_t mapped_bytes_;
  const std::map<std::string, void*> functions_;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_RUNTIME_OBJECT_LOADER_H_
