// Where a tool-call parser puts what it found: content, calls, and what is neither.
//
// Threads: one thread at a time.
// Invariants: white space beside markup is no content; calls are numbered from 0; every call that
// starts ends once; the arguments of a complete call are one JSON object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "chat/output/json_cursor.h"
#include "chat/output/output_event.h"

namespace bulkhead::chat {

enum class CallPolicy : uint8_t {
  kAll,
  kFirstOnly,  // what follows the first call is dropped
  kNone,       // calls are dropped
};

class CallWriter {
 public:
  CallWriter(CallPolicy policy, OutputEvents& out) : policy_(policy), out_(out) {}

  void content(std::string_view text);
  // Markup.
  void dropped(size_t source_bytes);
  // `id` may be empty. `source_bytes`: of the markup since the last event.
  void start(std::string_view id, std::string_view name, size_t source_bytes);
  void arguments(std::string_view json, size_t source_bytes);
  // `truncated`: the text ended inside the call.
  void end(size_t source_bytes, bool truncated = false);
  // No more text comes.
  void finish();

  bool in_call() const { return in_call_; }
  // Inside a string of the call's arguments, as far as they are JSON.
  bool in_string() const { return in_call_ && arguments_.in_string(); }
  bool any_arguments() const { return any_arguments_; }
  // The one call that was wanted has ended.
  bool done() const { return done_; }

 private:
  void drop_space();

  const CallPolicy policy_;
  OutputEvents& out_;
  std::string space_;  // white space that may stand beside markup
  bool after_markup_ = false;
  bool in_call_ = false;
  bool muted_ = false;  // the call under way is not told
  bool done_ = false;
  bool any_arguments_ = false;
  int32_t started_ = 0;
  JsonCursor arguments_;
};

}  // namespace bulkhead::chat
