// str() and repr() as Python writes them.
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/unicode.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  std::string out;
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t sign = text[e + 1] == '+' ? 1 : 0;
  std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 1) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {  // Python's repr switches to an exponent here
    out += digits[0];
    if (count > 1) out.append(".").append(digits, 1);
    const int magnitude = std::abs(exponent);
    out.append(exponent < 0 ? "e-" : "e+").append(magnitude < 10 ? "0" : "");
    return out + std::to_string(magnitude);
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (exponent + 1 >= count) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<size_t>(exponent + 1);
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string int_text(Int number) {
  std::array<char, 48> buffer;
  size_t at = buffer.size();
  const bool negative = number < 0;
  do {
    const int digit = static_cast<int>(number % 10);
    buffer[--at] = static_cast<char>('0' + (digit < 0 ? -digit : digit));
    number /= 10;
  } while (number != 0);
  if (negative) buffer[--at] = '-';
  return std::string(buffer.data() + at, buffer.size() - at);
}

namespace {

void append_hex(std::string& out, char kind, uint32_t value, int digits) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '\\';
  out += kind;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15u];
}

// The escape Python's repr writes for a character, or nothing when it stands for itself.
std::string escaped(char32_t c, char quote) {
  std::string out;
  if (c == '\\' || c == static_cast<unsigned char>(quote)) {
    out = {'\\', static_cast<char>(c)};
  } else if (c == '\n') {
    out = "\\n";
  } else if (c == '\r') {
    out = "\\r";
  } else if (c == '\t') {
    out = "\\t";
  } else if (!is_printable(c)) {
    if (c < 0x100) {
      append_hex(out, 'x', c, 2);
    } else if (c < 0x10000) {
      append_hex(out, 'u', c, 4);
    } else {
      append_hex(out, 'U', c, 8);
    }
  }
  return out;
}

void append_string_repr(StringBuilder& out, const Str& text) {
  const std::string_view view = text.view();
  const bool single = view.find('\'') != std::string_view::npos;
  const char quote = single && view.find('"') == std::string_view::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  size_t plain = 0;
  for (size_t at = 0; at < view.size();) {
    const base::Utf8Char c = base::decode_utf8(view.substr(at));
    const std::string escape = escaped(c.code_point, quote);
    if (!escape.empty()) {
      out.append(text.sub(plain, at - plain));
      out.append_marked(escape, text.marks()[at]);
      plain = at + c.length;
    }
    at += c.length;
  }
  out.append(text.sub(plain, view.size() - plain));
  out.append(std::string_view(&quote, 1));
}

void append_items(Heap& heap, StringBuilder& out, const Value& items, uint32_t depth) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(heap, out, item, depth + 1);
  }
}

void append_dict(Heap& heap, StringBuilder& out, const DictObject& dict, uint32_t depth) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.append(", ");
    first = false;
    append_repr(heap, out, key, depth + 1);
    out.append(": ");
    append_repr(heap, out, value, depth + 1);
  }
  out.append("}");
}

void append_view(Heap& heap, StringBuilder& out, const Value& value, uint32_t depth) {
  switch (value.as_view()->what) {
    case ViewObject::What::kKeys:
      out.append("dict_keys([");
      break;
    case ViewObject::What::kValues:
      out.append("dict_values([");
      break;
    case ViewObject::What::kItems:
      out.append("dict_items([");
      break;
  }
  append_items(heap, out, to_list(heap, value), depth);
  out.append("])");
}

void append_tuple(Heap& heap, StringBuilder& out, const Value& value, uint32_t depth) {
  out.append("(");
  append_items(heap, out, value, depth);
  out.append(value.size() == 1 ? ",)" : ")");
}

std::string range_repr(const RangeObject& range) {
  std::string out = "range(" + int_text(range.start) + ", " + int_text(range.stop);
  if (range.step != 1) out += ", " + int_text(range.step);
  return out + ")";
}

}  // namespace

void append_repr(Heap& heap, StringBuilder& out, const Value& value, uint32_t depth) {
  if (depth > kMaxValueDepth) fail_limit("a value is nested too deeply to print");
  heap.charge_step();
  switch (value.kind()) {
    case Kind::kUndefined:
      out.append("Undefined");
      break;
    case Kind::kNone:
      out.append("None");
      break;
    case Kind::kBool:
      out.append(value.as_bool() ? "True" : "False");
      break;
    case Kind::kInt:
      out.append(int_text(value.as_int()));
      break;
    case Kind::kFloat:
      out.append(float_repr(value.as_double()));
      break;
    case Kind::kString:
      if (value.is_markup()) out.append("Markup(");
      append_string_repr(out, value.as_str());
      if (value.is_markup()) out.append(")");
      break;
    case Kind::kList:
      out.append("[");
      append_items(heap, out, value, depth);
      out.append("]");
      break;
    case Kind::kTuple:
      append_tuple(heap, out, value, depth);
      break;
    case Kind::kDict:
      append_dict(heap, out, *value.as_dict(), depth);
      break;
    case Kind::kView:
      append_view(heap, out, value, depth);
      break;
    case Kind::kRange:
      out.append(range_repr(*value.as_range()));
      break;
    case Kind::kNamespace:
      out.append("<Namespace ");
      append_dict(heap, out, *value.as_namespace()->attributes, depth);
      out.append(">");
      break;
    case Kind::kFunction:
      out.append("<function " + std::string(value.as_function()->name) + ">");
      break;
    case Kind::kIterator:
      out.append("<generator object>");
      break;
    case Kind::kMacro:
      out.append("<Macro '" + value.as_macro()->statement->spelled + "'>");
      break;
    case Kind::kLoop:
      out.append("<LoopContext " + std::to_string(value.as_loop()->index0 + 1) + "/" +
                 std::to_string(value.as_loop()->items.size()) + ">");
      break;
  }
}

Str to_str(Heap& heap, const Value& value) {
  if (value.is_string()) return value.as_str();
  if (value.is_undefined()) return Str{};
  StringBuilder out(heap);
  append_repr(heap, out, value);
  return out.finish();
}

}  // namespace bulkhead::chat::jinja
