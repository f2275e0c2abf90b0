// Pins kernel_abi.h: generated code has these numbers in it.
#include "cc/abi/kernel_abi_layout.h"

#include <cstddef>
#include <string>

#include "cc/abi/kernel_abi.h"

// X(struct, field, offset). A change here is a new DISC_ABI_VERSION.
#define TF_DISC_ABI_FIELDS(X)         \
  X(disc_tensor_t, data, 0)           \
  X(disc_tensor_t, dims, 8)           \
  X(disc_imports_t, abi_version, 0)   \
  X(disc_imports_t, size_bytes, 4)    \
  X(disc_imports_t, parallel_for, 8)  \
  X(disc_imports_t, gemm_packed, 16)  \
  X(disc_imports_t, gemm_dense, 24)   \
  X(disc_frame_t, imports, 0)         \
  X(disc_frame_t, run, 8)             \
  X(disc_frame_t, inputs, 16)         \
  X(disc_frame_t, outputs, 24)        \
  X(disc_frame_t, output_dims, 32)    \
  X(disc_frame_t, sizes, 40)          \
  X(disc_frame_t, arena, 48)          \
  X(disc_frame_t, scratch, 56)        \
  X(disc_frame_t, scratch_stride, 64) \
  X(disc_frame_t, arena_bytes, 72)    \
  X(disc_frame_t, scratch_bytes, 80)  \
  X(disc_frame_t, num_slots, 88)      \
  X(disc_frame_t, failed_guard, 92)

// X(struct, bytes).
#define TF_DISC_ABI_STRUCTS(X) \
  X(disc_tensor_t, 16)         \
  X(disc_imports_t, 32)        \
  X(disc_frame_t, 96)

// X(constant, value).
#define TF_DISC_ABI_CONSTANTS(X) \
  X(DISC_OK, 0)                  \
  X(DISC_GUARD_FAILED, 1)        \
  X(DISC_LIBRARY_FAILED, 2)      \
  X(DISC_F32, 1)                 \
  X(DISC_F64, 2)                 \
  X(DISC_I32, 3)                 \
  X(DISC_I64, 4)                 \
  X(DISC_BOOL, 5)                \
  X(DISC_I8, 6)                  \
  X(DISC_U8, 7)                  \
  X(DISC_I16, 8)                 \
  X(DISC_F16, 9)                 \
  X(DISC_BF16, 10)

#define TF_DISC_CHECK_FIELD(type, field, offset) \
  static_assert(offsetof(type, field) == offset, #type "." #field);
TF_DISC_ABI_FIELDS(TF_DISC_CHECK_FIELD)
#define TF_DISC_CHECK_STRUCT(type, bytes) \
  static_assert(sizeof(type) == bytes, #type);
TF_DISC_ABI_STRUCTS(TF_DISC_CHECK_STRUCT)
#define TF_DISC_CHECK_CONSTANT(name, number) \
  static_assert(name == number, #name);
TF_DISC_ABI_CONSTANTS(TF_DISC_CHECK_CONSTANT)

static_assert(DISC_ABI_VERSION == 3, "docs/kernel_abi.md has a line a version");

const char* disc_abi_layout() {
  static const std::string* const text = [] {
    auto* lines = new std::string;
    *lines += "version " + std::to_string(DISC_ABI_VERSION) + "\n";
#define TF_DISC_REPORT_STRUCT(type, bytes) \
  *lines += #type " size " + std::to_string(sizeof(type)) + "\n";
    TF_DISC_ABI_STRUCTS(TF_DISC_REPORT_STRUCT)
#define TF_DISC_REPORT_FIELD(type, field, offset) \
  *lines += #type "." #field " offset " +         \
            std::to_string(offsetof(type, field)) + "\n";
    TF_DISC_ABI_FIELDS(TF_DISC_REPORT_FIELD)
#define TF_DISC_REPORT_CONSTANT(name, number) \
  *lines += #name " value " + std::to_string(static_cast<int>(name)) + "\n";
    TF_DISC_ABI_CONSTANTS(TF_DISC_REPORT_CONSTANT)
    return lines;
  }();
  return text->c_str();
}
