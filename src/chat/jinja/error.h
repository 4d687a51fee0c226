// How the template engine gives up: one exception that never leaves chat/.
//
// Threads: plain values.
// Invariants: thrown only between the engine's files and caught in template.cc, which turns it into
// a base::Error; `line` is the template line of the innermost statement or expression, 0 until the
// interpreter knows it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace bulkhead::chat::jinja {

struct RenderError {
  base::ErrorCode code = base::ErrorCode::kUnsupported;
  std::string message;
  uint32_t line = 0;
};

// What Python would report as TypeError, ValueError, UndefinedError and the like.
[[noreturn]] inline void fail(std::string message) {
  throw RenderError{base::ErrorCode::kUnsupported, std::move(message), 0};
}
[[noreturn]] inline void fail_at(uint32_t line, std::string message) {
  throw RenderError{base::ErrorCode::kUnsupported, std::move(message), line};
}
[[noreturn]] inline void fail_limit(std::string message) {
  throw RenderError{base::ErrorCode::kResourceExhausted, std::move(message), 0};
}

}  // namespace bulkhead::chat::jinja
