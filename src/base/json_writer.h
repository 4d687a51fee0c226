// Writes JSON text, in order, without building a tree.
//
// Threads: one writer per thread. Invariants: commas and quotes are the writer's business; strings
// leave as valid UTF-8 (an invalid byte becomes U+FFFD); doubles are the shortest text that reads
// back equal, and non-finite ones are null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::base {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter& value(int64_t number);
  JsonWriter& value(uint64_t number);
  JsonWriter& value(int number) { return value(static_cast<int64_t>(number)); }
  JsonWriter& value(unsigned number) { return value(static_cast<uint64_t>(number)); }
  JsonWriter& value(double number);
  JsonWriter& null() { return raw("null"); }
  // Text that is JSON already; the caller vouches for it.
  JsonWriter& raw(std::string_view json);

  const std::string& text() const { return out_; }
  std::string take() && { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string out_;
  bool need_comma_ = false;
};

// `text` with JSON escapes, without the surrounding quotes.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace bulkhead::base
