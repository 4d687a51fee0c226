#include "chat/output/argument_object.h"

#include "base/json_writer.h"

namespace bulkhead::chat {

void ArgumentObject::begin(std::string_view name, JsonTypes types, size_t source_bytes) {
  std::string json = any_ ? ", \"" : "{\"";
  base::append_json_escaped(json, name);
  json += "\": ";
  types_ = types;
  if (is_text()) json += '"';
  any_ = true;
  value_.clear();
  writer_.arguments(json, source_bytes);
}

void ArgumentObject::text(std::string_view text) {
  if (!is_text()) {
    value_ += text;
    return;
  }
  std::string json;
  base::append_json_escaped(json, text);
  writer_.arguments(json, text.size());
}

void ArgumentObject::end(size_t source_bytes, bool truncated) {
  const size_t source = value_.size() + source_bytes;
  if (truncated) {
    writer_.arguments(value_, source);
  } else {
    writer_.arguments(is_text() ? "\"" : typed_value(value_, types_), source);
  }
  value_.clear();
}

void ArgumentObject::close(size_t source_bytes) {
  writer_.arguments(any_ ? "}" : "{}", source_bytes);
}

}  // namespace bulkhead::chat
