// SHA-256 (FIPS 180-4). Names and checks cache entries; no secrets are
// involved.
#ifndef TF_DISC_CC_COMPILE_SHA256_H_
#define TF_DISC_CC_COMPILE_SHA256_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tf_disc {

// The 32-byte digest.
std::string Sha256(absl::string_view bytes);

// The digest as 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace tf_disc

#endif  // TF_DISC_CC_COMPILE_SHA256_H_
