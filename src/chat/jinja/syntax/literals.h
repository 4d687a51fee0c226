// Number and string literals of template expressions.
//
// Threads: pure functions. Invariant: `text` is valid UTF-8, and so is what leaves.
#pragma once

#include <string>
#include <string_view>

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

struct NumberLiteral {
  size_t length = 0;  // bytes of the literal
  bool is_float = false;
  bool out_of_range = false;
  Int integer = 0;
  double number = 0.0;
};

// `text` starts with a digit.
NumberLiteral parse_number_literal(std::string_view text);

// Python's escapes; false for a malformed one.
bool decode_string_literal(std::string_view text, std::string& out);

// A whole decimal, octal, hex or binary integer with an optional sign, as int(text, base) reads it.
bool parse_python_int(std::string_view text, int base, Int& out);
// As float(text) reads it.
bool parse_python_float(std::string_view text, double& out);

}  // namespace bulkhead::chat::jinja
