// Template source -> tokens, with Jinja's whitespace rules applied (trim_blocks, lstrip_blocks on,
// keep_trailing_newline off).
//
// Threads: pure function.
// Invariants: the source must be valid UTF-8; template text keeps its order; every token knows its
// line (1-based); throws RenderError with a line for what jinja2 refuses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 0;
  std::string text;  // data, name, decoded string, operator
  Int integer = 0;
  double number = 0.0;
};

std::vector<Token> tokenize(std::string_view source);

}  // namespace bulkhead::chat::jinja
