// Writes JSON text. Keys and values in the order of the calls, so that equal
// calls give equal bytes (cluster files are hashed). No TensorFlow.
#ifndef TF_DISC_CC_BASE_JSON_WRITER_H_
#define TF_DISC_CC_BASE_JSON_WRITER_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tf_disc {

// Use: JsonWriter w; w.BeginObject().Key("a").Value(1).EndObject(); w.text().
// A Key must precede each value inside an object and only there.
class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(absl::string_view key);

  // Bytes that are not UTF-8 are written as U+00XX, one a byte.
  JsonWriter& Value(absl::string_view value);
  JsonWriter& Value(const char* value) {
    return Value(absl::string_view(value));
  }
  JsonWriter& Value(const std::string& value) {
    return Value(absl::string_view(value));
  }
  JsonWriter& Value(bool value);
  // The shortest text that reads back as the same number of the same type;
  // "nan", "inf", "-inf" as strings.
  JsonWriter& Value(double value);
  JsonWriter& Value(float value);
  template <typename Int,
            typename = std::enable_if_t<std::is_integral<Int>::value &&
                                        !std::is_same<Int, bool>::value>>
  JsonWriter& Value(Int value) {
    if constexpr (std::is_signed<Int>::value) {
      return Raw(std::to_string(static_cast<int64_t>(value)));
    } else {
      return Raw(std::to_string(static_cast<uint64_t>(value)));
    }
  }
  JsonWriter& Null();
  // Text that is already JSON.
  JsonWriter& Raw(absl::string_view json);

  template <typename Range>
  JsonWriter& Array(const Range& range) {
    BeginArray();
    for (const auto& value : range) Value(value);
    return EndArray();
  }

  const std::string& text() const { return text_; }
  std::string Take() { return std::move(text_); }

 private:
  void BeforeValue();

  std::string text_;
  // One entry for each open object or array: whether it holds something.
  std::vector<bool> has_items_;
  bool after_key_ = false;
};

}  // namespace tf_disc

#endif  // TF_DISC_CC_BASE_JSON_WRITER_H_
