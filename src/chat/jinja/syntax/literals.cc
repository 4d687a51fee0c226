#include "chat/jinja/syntax/literals.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "chat/jinja/unicode.h"

namespace bulkhead::chat::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Digits of `base` with single underscores between them; the length, 0 when there is none.
size_t digits_length(std::string_view text, int base) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t skip = at > 0 && text[at] == '_' ? 1 : 0;
    if (at + skip >= text.size() || digit_value(text[at + skip]) >= base) break;
    at += skip + 1;
  }
  return at;
}

bool read_digits(std::string_view text, int base, Int& out) {
  for (const char c : text) {
    if (c == '_') continue;
    if (__builtin_mul_overflow(out, static_cast<Int>(base), &out) ||
        __builtin_add_overflow(out, static_cast<Int>(digit_value(c)), &out)) {
      return false;
    }
  }
  return true;
}

size_t exponent_length(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  const size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const size_t digits = digits_length(text.substr(1 + sign), 10);
  return digits == 0 ? 0 : 1 + sign + digits;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

double read_double(std::string_view text) {
  double number = 0.0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc::result_out_of_range) return number;
  const size_t e = text.find_first_of("eE");
  const bool tiny = e != std::string_view::npos && e + 1 < text.size() && text[e + 1] == '-';
  return tiny ? 0.0 : std::numeric_limits<double>::infinity();
}

NumberLiteral prefixed_literal(std::string_view text, int base) {
  NumberLiteral literal;
  std::string_view rest = text.substr(2);
  const size_t skip = rest.starts_with('_') ? 1 : 0;
  const size_t digits = digits_length(rest.substr(skip), base);
  if (digits == 0) return literal;
  literal.length = 2 + skip + digits;
  literal.out_of_range = !read_digits(rest.substr(0, skip + digits), base, literal.integer);
  return literal;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 0;
  }
}

NumberLiteral decimal_literal(std::string_view text) {
  NumberLiteral literal;
  literal.length = digits_length(text, 10);
  if (text[0] == '0') {  // a leading zero may only be followed by more zeros
    size_t zeros = 1;
    while (zeros < literal.length && (text[zeros] == '0' || text[zeros] == '_')) ++zeros;
    literal.length = text[zeros - 1] == '_' ? zeros - 1 : zeros;
  }
  literal.out_of_range = !read_digits(text.substr(0, literal.length), 10, literal.integer);
  return literal;
}

}  // namespace

NumberLiteral parse_number_literal(std::string_view text) {
  const size_t whole = digits_length(text, 10);
  size_t length = whole;
  if (length + 1 < text.size() && text[length] == '.') {
    const size_t fraction = digits_length(text.substr(length + 1), 10);
    if (fraction > 0) length += 1 + fraction;
  }
  length += exponent_length(text.substr(length));
  if (length > whole) {
    NumberLiteral literal;
    literal.length = length;
    literal.is_float = true;
    literal.number = read_double(without_underscores(text.substr(0, length)));
    return literal;
  }
  if (const int base = prefix_base(text); base != 0) {
    const NumberLiteral literal = prefixed_literal(text, base);
    if (literal.length > 0) return literal;
  }
  return decimal_literal(text);
}

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const base::Utf8Char c = base::decode_utf8(text);
    if (!is_space(c.code_point)) break;
    text.remove_prefix(c.length);
  }
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0u) == 0x80u) --start;
    if (!is_space(base::decode_utf8(text.substr(start)).code_point)) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

}  // namespace

bool parse_python_int(std::string_view text, int base, Int& out) {
  text = trimmed(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
    base = prefix;
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of("0_") != std::string_view::npos) {
      return false;
    }
    base = 10;
  }
  if (text.empty() || digits_length(text, base) != text.size()) return false;
  out = 0;
  if (!read_digits(text, base, out)) fail("integer is too large");
  if (negative) out = -out;
  return true;
}

bool parse_python_float(std::string_view text, double& out) {
  text = trimmed(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (equals_ignoring_case(text, "inf") || equals_ignoring_case(text, "infinity")) {
    out = std::numeric_limits<double>::infinity();
  } else if (equals_ignoring_case(text, "nan")) {
    out = std::numeric_limits<double>::quiet_NaN();
  } else {
    size_t length = digits_length(text, 10);
    size_t digits = length;
    if (length < text.size() && text[length] == '.') {
      const size_t fraction = digits_length(text.substr(length + 1), 10);
      digits += fraction;
      length += 1 + fraction;
    }
    if (digits == 0) return false;
    length += exponent_length(text.substr(length));
    if (length != text.size()) return false;
    out = read_double(without_underscores(text));
  }
  if (negative) out = -out;
  return true;
}

namespace {

// Reads `count` hex digits at `at`.
bool read_hex(std::string_view text, size_t at, size_t count, char32_t& out) {
  if (at + count > text.size()) return false;
  out = 0;
  for (size_t i = 0; i < count; ++i) {
    const int digit = digit_value(text[at + i]);
    if (digit >= 16) return false;
    out = out * 16 + static_cast<char32_t>(digit);
  }
  return true;
}

// \ooo: up to three octal digits.
size_t read_octal(std::string_view text, size_t at, char32_t& out) {
  size_t length = 0;
  out = 0;
  while (length < 3 && at + length < text.size() && digit_value(text[at + length]) < 8) {
    out = out * 8 + static_cast<char32_t>(text[at + length] - '0');
    ++length;
  }
  return length;
}

char simple_escape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    default:
      return '\0';
  }
}

size_t hex_digits_of(char c) { return c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0)); }

bool is_scalar(char32_t c) { return c < 0x110000 && (c < 0xD800 || c > 0xDFFF); }

}  // namespace

bool decode_string_literal(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i >= text.size()) return false;
    const char c = text[i];
    char32_t code = 0;
    if (const char simple = simple_escape(c); simple != '\0') {
      out += simple;
    } else if (c == '\n') {
      continue;  // a line continuation
    } else if (const size_t octal = read_octal(text, i, code); octal > 0) {
      base::append_utf8(out, code);
      i += octal - 1;
    } else if (const size_t digits = hex_digits_of(c); digits > 0) {
      if (!read_hex(text, i + 1, digits, code) || !is_scalar(code)) return false;
      base::append_utf8(out, code);
      i += digits;
    } else if (c == 'N') {
      return false;  // named characters would need Python's name table
    } else {
      out += '\\';
      out += c;
    }
  }
  return true;
}

}  // namespace bulkhead::chat::jinja
