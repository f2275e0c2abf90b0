// Little-endian integers in byte strings: artifact files and worker messages.
#ifndef TF_DISC_CC_COMPILE_LITTLE_ENDIAN_H_
#define TF_DISC_CC_COMPILE_LITTLE_ENDIAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tf_disc {

template <typename UInt>
void AppendLittleEndian(UInt value, std::string* bytes) {
  for (size_t i = 0; i < sizeof(UInt); ++i) {
    bytes->push_back(static_cast<char>(value >> (8 * i)));
  }
}

// `bytes` has at least `at` + sizeof(UInt) bytes.
template <typename UInt>
UInt ReadLittleEndian(absl::string_view bytes, size_t at) {
  UInt value = 0;
  for (size_t i = 0; i < sizeof(UInt); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at + i]);
    value |= static_cast<UInt>(byte) << (8 * i);
  }
  return value;
}

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_LITTLE_ENDIAN_H_
