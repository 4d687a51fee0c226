// Character properties and case mappings as Python's str has them.
//
// Threads: pure functions. Invariant: the tables (unicode_tables.inc) are written by
// tools/chat/unicode_tables.py from Python's own unicodedata.
#pragma once

#include <cstdint>
#include <string>

namespace bulkhead::chat::jinja {

bool is_space(char32_t c);
bool is_line_break(char32_t c);  // what str.splitlines splits at
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
inline bool is_alnum(char32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}
inline bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

enum class CaseMap : uint8_t { kLower, kUpper, kTitle, kFold };
// The mapping of one character, one to three characters long, appended as UTF-8.
void append_mapped(std::string& out, char32_t c, CaseMap map);

}  // namespace bulkhead::chat::jinja
