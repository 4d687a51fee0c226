#include "base/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace bulkhead::base {

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  size_t at = 0;
  while (at < text.size()) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
      ++at;
    } else if (c == '\n') {
      out += "\\n";
      ++at;
    } else if (c == '\r') {
      out += "\\r";
      ++at;
    } else if (c == '\t') {
      out += "\\t";
      ++at;
    } else if (c < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
      ++at;
    } else if (c < 0x80) {
      out += static_cast<char>(c);
      ++at;
    } else {
      const Utf8Char decoded = decode_utf8(text.substr(at));
      append_utf8(out, decoded.code_point);
      at += decoded.length;
    }
  }
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  out_ += '"';
  append_json_escaped(out_, name);
  out_ += "\":";
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  out_ += '"';
  append_json_escaped(out_, text);
  out_ += '"';
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(int64_t number) { return raw(std::to_string(number)); }
JsonWriter& JsonWriter::value(uint64_t number) { return raw(std::to_string(number)); }

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  std::array<char, 32> buffer{};
  const auto [end, ec] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  raw(text);
  // A whole double keeps its point, so that readers see a number of the same kind.
  if (text.find_first_of(".en") == std::string_view::npos) out_ += ".0";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  need_comma_ = true;
  return *this;
}

void JsonWriter::separate() {
  if (need_comma_) out_ += ',';
  need_comma_ = false;
}

}  // namespace bulkhead::base
