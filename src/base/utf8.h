// UTF-8 in and out, total on every input.
//
// Threads: pure functions. Invariant: decoding always advances by at least one byte; a byte that
// cannot be part of a character decodes to U+FFFD. Overlong forms, surrogates and values above
// U+10FFFF are invalid (Unicode 15, table 3-7).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bulkhead::base {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Char {
  char32_t code_point;
  uint32_t length;  // bytes consumed; for an invalid sequence its maximal valid prefix, at least 1
  bool valid;
};

// The first character of `text`, which must not be empty.
Utf8Char decode_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);
bool is_valid_utf8(std::string_view text);
// `text` with every invalid sequence replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);
// Length of the longest prefix of `text` that does not end inside a character that more bytes
// could complete.
size_t complete_utf8_prefix(std::string_view text);

}  // namespace bulkhead::base
