// The arguments of a call, built as JSON from names and values that come one after the other.
//
// Threads: one thread at a time. Invariants: what was written is the beginning of a JSON object at
// any time, and all of one after close().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/output/call_writer.h"
#include "chat/output/tool_schemas.h"

namespace bulkhead::chat {

class ArgumentObject {
 public:
  explicit ArgumentObject(CallWriter& writer) : writer_(writer) {}

  void open() { any_ = false; }
  // `types`: of the value, which is written as it comes where it can only be text.
  // `source_bytes`: of the markup since the last piece.
  void begin(std::string_view name, JsonTypes types, size_t source_bytes);
  void text(std::string_view text);
  // `truncated`: the value is not complete, and neither becomes its JSON.
  void end(size_t source_bytes, bool truncated = false);
  void close(size_t source_bytes);

 private:
  bool is_text() const { return types_ == static_cast<JsonTypes>(JsonType::kString); }

  CallWriter& writer_;
  bool any_ = false;
  JsonTypes types_ = 0;
  std::string value_;  // unless it is written as it comes
};

}  // namespace bulkhead::chat
