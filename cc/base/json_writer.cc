#include "cc/base/json_writer.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tf_disc {
namespace {

// Length in bytes of the well-formed UTF-8 sequence at the start of `text`, 0
// if there is none. Overlong forms and surrogates are refused, as JSON readers
// do.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

void AppendEscaped(unsigned char byte, std::string* out) {
  char buffer[8];
  std::snprintf(buffer, sizeof(buffer), "\\u%04x", byte);
  out->append(buffer);
}

void AppendString(absl::string_view value, std::string* out) {
  out->push_back('"');
  while (!value.empty()) {
    const unsigned char c = static_cast<unsigned char>(value[0]);
    size_t length = Utf8Length(value);
    if (length == 0) {
      AppendEscaped(c, out);
      length = 1;
    } else if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c < 0x20 || c == 0x7f) {
      AppendEscaped(c, out);
    } else {
      out->append(value.data(), length);
    }
    value.remove_prefix(length);
  }
  out->push_back('"');
}

template <typename Float>
std::string FloatText(Float value, int max_digits) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char buffer[40];
  for (int digits = 6;; ++digits) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", digits,
                  static_cast<double>(value));
    const Float back = std::is_same<Float, float>::value
                           ? static_cast<Float>(std::strtof(buffer, nullptr))
                           : static_cast<Float>(std::strtod(buffer, nullptr));
    if (digits >= max_digits || back == value) break;
  }
  std::string text(buffer);
  // A float stays a float for readers that tell 1 from 1.0.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) text_.append(", ");
  has_items_.back() = true;
}

JsonWriter& JsonWriter::BeginObject() {
  BeforeValue();
  text_.push_back('{');
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  text_.push_back('}');
  if (!has_items_.empty()) has_items_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  BeforeValue();
  text_.push_back('[');
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  text_.push_back(']');
  if (!has_items_.empty()) has_items_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  BeforeValue();
  AppendString(key, &text_);
  text_.append(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::Value(absl::string_view value) {
  BeforeValue();
  AppendString(value, &text_);
  return *this;
}

JsonWriter& JsonWriter::Value(bool value) {
  return Raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::Value(double value) {
  return Raw(FloatText(value, 17));
}

JsonWriter& JsonWriter::Value(float value) { return Raw(FloatText(value, 9)); }

JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Raw(absl::string_view json) {
  BeforeValue();
  text_.append(json.data(), json.size());
  return *this;
}

}  // namespace tf_disc
