#include "chat/jinja/library/printf_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja {
namespace {

struct Spec {
  bool minus = false;
  bool plus = false;
  bool space = false;
  bool zero = false;
  bool alternate = false;
  Int width = 0;
  Int precision = -1;
  char type = 's';
};

// Hands out the right-hand side of %, in order or by name.
class Operands {
 public:
  Operands(Heap& heap, const Value& values) : heap_(heap), values_(values) {}

  Value next() {
    if (named_) fail("format requires a mapping");
    if (!values_.is(Kind::kTuple)) {
      if (used_++ > 0) fail("not enough arguments for format string");
      return values_;
    }
    if (used_ >= values_.size()) fail("not enough arguments for format string");
    return values_.begin()[used_++];
  }
  Value named(const Str& key) {
    if (!values_.is(Kind::kDict)) fail("format requires a mapping");
    named_ = true;
    const Value* value = dict_find(heap_, *values_.as_dict(), Value::string(key));
    if (value == nullptr) fail("key '" + std::string(key.view()) + "' is missing");
    return *value;
  }
  void finish() const {
    // Python is lenient with what could be a mapping, and takes anything with subscripts for one.
    const bool subscripts = values_.is(Kind::kDict) || values_.is(Kind::kList) ||
                            values_.is(Kind::kRange) || values_.is_undefined();
    if (named_ || subscripts) return;
    const size_t given = values_.is(Kind::kTuple) ? values_.size() : 1;
    if (used_ < given) fail("not all arguments converted during string formatting");
  }

 private:
  Heap& heap_;
  const Value values_;
  size_t used_ = 0;
  bool named_ = false;
};

constexpr Int kMaxPrecision = 400;  // digits of a float a template may ask for

std::string digits_in_base(Int number, unsigned base, bool upper) {
  const std::string_view kDigits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  const bool negative = number < 0;
  do {
    const int digit = static_cast<int>(number % static_cast<Int>(base));
    out += kDigits[static_cast<size_t>(digit < 0 ? -digit : digit)];
    number /= static_cast<Int>(base);
  } while (number != 0);
  if (negative) out += '-';
  return std::string(out.rbegin(), out.rend());
}

std::string float_text(double number, const Spec& spec) {
  if (spec.precision > kMaxPrecision) fail_limit("a number format asks for too many digits");
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const char format[] = {'%',
                         spec.alternate ? '#' : '.',
                         spec.alternate ? '.' : '*',
                         spec.alternate ? '*' : spec.type,
                         spec.alternate ? spec.type : '\0',
                         '\0'};
  std::string out(static_cast<size_t>(precision) + 400, '\0');
  const int size = std::snprintf(out.data(), out.size(), format, precision, number);
  out.resize(static_cast<size_t>(std::max(size, 0)));
  return out;
}

Int whole_number(const Value& value, char type) {
  if (value.is_integral()) return value.as_int();
  const bool truncates = type == 'd' || type == 'i' || type == 'u';
  if (!value.is(Kind::kFloat) || !truncates || !(std::abs(value.as_double()) < 0x1p126)) {
    fail(std::string("%") + type + " format: a number is required, not " +
         std::string(type_name(value)));
  }
  return static_cast<Int>(value.as_double());
}

std::string number_text(const Value& value, const Spec& spec) {
  std::string text;
  switch (spec.type) {
    case 'd':
    case 'i':
    case 'u':
      text = int_text(whole_number(value, spec.type));
      break;
    case 'x':
    case 'X':
      text = digits_in_base(whole_number(value, spec.type), 16, spec.type == 'X');
      break;
    case 'o':
      text = digits_in_base(whole_number(value, spec.type), 8, false);
      break;
    default:
      if (!value.is_number()) fail("must be real number, not " + std::string(type_name(value)));
      text = float_text(value.as_double(), spec);
      break;
  }
  const bool negative = text.starts_with('-');
  std::string digits = negative ? text.substr(1) : text;
  std::string sign = negative ? "-" : (spec.plus ? "+" : (spec.space ? " " : ""));
  const bool integral = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
  if (integral && spec.precision > static_cast<Int>(digits.size())) {
    if (spec.precision > kMaxPrecision) fail_limit("a number format asks for too many digits");
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  if (spec.alternate && integral && spec.type != 'd' && spec.type != 'i' && spec.type != 'u') {
    sign += std::string("0") + spec.type;
  }
  const Int missing = spec.width - static_cast<Int>(sign.size() + digits.size());
  if (spec.zero && !spec.minus && missing > 0) {
    if (missing > kMaxPrecision) fail_limit("a number format asks for too many digits");
    digits.insert(0, static_cast<size_t>(missing), '0');
  }
  return sign + digits;
}

Str repr_of(Heap& heap, const Value& value) {
  StringBuilder out(heap);
  append_repr(heap, out, value);
  return out.finish();
}

Str character_text(Heap& heap, const Value& value) {
  if (value.is_string() && count_characters(heap, value.view()) == 1) return value.as_str();
  if (!value.is_integral()) fail("%c requires int or char");
  const Int code = value.as_int();
  if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    fail("%c arg not in range(0x110000)");
  }
  std::string text;
  base::append_utf8(text, static_cast<char32_t>(code));
  return make_str(heap, text, false);
}

Str formatted(Heap& heap, const Value& value, const Spec& spec) {
  Str text;
  switch (spec.type) {
    case 's':
      text = to_str(heap, value);
      break;
    case 'r':
    case 'a':
      text = repr_of(heap, value);
      break;
    case 'c':
      text = character_text(heap, value);
      break;
    default:
      text = make_str(heap, number_text(value, spec), false);
      break;
  }
  const bool cut =
      (spec.type == 's' || spec.type == 'r' || spec.type == 'a') && spec.precision >= 0;
  if (cut) text = characters(heap, text, 0, static_cast<size_t>(spec.precision));
  return pad(heap, text, spec.width, make_str(heap, " ", false), spec.minus ? '<' : '>');
}

Int read_count(std::string_view text, size_t& at, Operands& operands) {
  if (at < text.size() && text[at] == '*') {
    ++at;
    const Value value = operands.next();
    if (!value.is_integral()) fail("* wants int");
    return value.as_int();
  }
  Int count = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    count = std::min<Int>(count * 10 + (text[at++] - '0'), Int{1} << 40);
  }
  return count;
}

// Reads a conversion after its % and any (name); leaves `at` behind it.
Spec read_spec(std::string_view text, size_t& at, Operands& operands) {
  Spec spec;
  for (; at < text.size(); ++at) {
    if (text[at] == '-')
      spec.minus = true;
    else if (text[at] == '+')
      spec.plus = true;
    else if (text[at] == ' ')
      spec.space = true;
    else if (text[at] == '0')
      spec.zero = true;
    else if (text[at] == '#')
      spec.alternate = true;
    else
      break;
  }
  spec.width = read_count(text, at, operands);
  if (spec.width < 0) {
    spec.minus = true;
    spec.width = -spec.width;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = std::max<Int>(read_count(text, at, operands), 0);
  }
  while (at < text.size() && (text[at] == 'l' || text[at] == 'h' || text[at] == 'L')) ++at;
  if (at >= text.size()) fail("incomplete format");
  spec.type = text[at++];
  if (std::string_view("srcadiuxXoeEfFgG%").find(spec.type) == std::string_view::npos) {
    fail("unsupported format character");
  }
  return spec;
}

}  // namespace

Value printf_format(Heap& heap, const Value& format, const Value& arguments) {
  const Str text = format.as_str();
  const std::string_view view = text.view();
  StringBuilder out(heap);
  Operands operands(heap, arguments);
  size_t plain = 0;
  for (size_t at = view.find('%'); at != std::string_view::npos; at = view.find('%', plain)) {
    out.append(text.sub(plain, at - plain));
    size_t next = at + 1;
    Value named;
    const bool by_name = next < view.size() && view[next] == '(';
    if (by_name) {
      const size_t close = view.find(')', next);
      if (close == std::string_view::npos) fail("incomplete format key");
      named = operands.named(text.sub(next + 1, close - next - 1));
      next = close + 1;
    }
    const Spec spec = read_spec(view, next, operands);
    if (spec.type == '%') {
      out.append(text.sub(at, 1));
    } else {
      Str piece = formatted(heap, by_name ? named : operands.next(), spec);
      if (format.is_markup()) piece = html_escape(heap, piece);
      out.append(piece);
    }
    plain = next;
    heap.charge_step();
  }
  out.append(text.sub(plain, view.size() - plain));
  operands.finish();
  return Value::string(out.finish(), format.is_markup());
}

namespace {

// One {field}: its name part, and whether !r or !s follows.
struct Field {
  std::string_view name;
  char conversion = '\0';
};

Field parse_field(std::string_view text) {
  Field field;
  const size_t end = text.find_first_of("!:");
  field.name = text.substr(0, end);
  if (end == std::string_view::npos) return field;
  std::string_view rest = text.substr(end);
  if (rest.starts_with('!')) {
    if (rest.size() < 2 || (rest[1] != 'r' && rest[1] != 's')) fail("unknown format conversion");
    field.conversion = rest[1];
    rest.remove_prefix(2);
  }
  if (!rest.empty() && rest != ":") {
    fail("str.format specifications (after ':') are not available in chat templates");
  }
  return field;
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

size_t small_number(std::string_view digits) {
  size_t number = 0;
  for (const char c : digits) number = std::min<size_t>(number * 10 + (c - '0'), size_t{1} << 30);
  return number;
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& arguments)
      : interpreter_(interpreter), arguments_(arguments) {}

  Value field_value(std::string_view name) {
    const size_t end = name.find_first_of(".[");
    Value value = first_value(name.substr(0, end));
    std::string_view rest = end == std::string_view::npos ? "" : name.substr(end);
    while (!rest.empty()) {
      if (rest[0] == '.') {
        rest.remove_prefix(1);
        const size_t stop = std::min(rest.find_first_of(".["), rest.size());
        if (stop == 0) fail("Empty attribute in format string");
        value = interpreter_.get_attribute(value, make_key(rest.substr(0, stop)));
        rest.remove_prefix(stop);
      } else if (rest[0] == '[') {
        const size_t close = rest.find(']');
        if (close == std::string_view::npos || close == 1) fail("Missing ']' in format string");
        const std::string_view key = rest.substr(1, close - 1);
        value = interpreter_.get_item(
            value, all_digits(key) ? Value::count(small_number(key)) : make_key(key));
        rest.remove_prefix(close + 1);
      } else {
        fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

 private:
  Value make_key(std::string_view key) { return make_string(interpreter_.heap(), key); }

  Value first_value(std::string_view name) {
    if (name.empty() || all_digits(name)) {
      const bool automatic = name.empty();
      if (numbering_ != Numbering::kNone && (numbering_ == Numbering::kAutomatic) != automatic) {
        fail("cannot switch between automatic and manual field numbering");
      }
      numbering_ = automatic ? Numbering::kAutomatic : Numbering::kManual;
      const size_t index = automatic ? next_++ : small_number(name);
      if (index >= arguments_.positional.size()) {
        fail("Replacement index " + std::to_string(index) + " out of range");
      }
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key.view() == name) return value;
    }
    fail("format field '" + std::string(name) + "' is missing");
  }

  enum class Numbering : uint8_t { kNone, kAutomatic, kManual };
  Interpreter& interpreter_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::kNone;
  size_t next_ = 0;
};

}  // namespace

Value brace_format(Interpreter& interpreter, const Value& format, const Arguments& arguments) {
  Heap& heap = interpreter.heap();
  const Str text = format.as_str();
  const std::string_view view = text.view();
  StringBuilder out(heap);
  BraceFormatter formatter(interpreter, arguments);
  size_t at = 0;
  while (at < view.size()) {
    const size_t brace = std::min(view.find_first_of("{}", at), view.size());
    out.append(text.sub(at, brace - at));
    if (brace == view.size()) break;
    heap.charge_step();
    if (brace + 1 < view.size() && view[brace + 1] == view[brace]) {
      out.append(text.sub(brace, 1));
      at = brace + 2;
      continue;
    }
    if (view[brace] == '}') fail("Single '}' encountered in format string");
    const size_t close = view.find('}', brace);
    if (close == std::string_view::npos) fail("expected '}' before end of string");
    const Field field = parse_field(view.substr(brace + 1, close - brace - 1));
    const Value value = formatter.field_value(field.name);
    Str piece = field.conversion == 'r' ? repr_of(heap, value) : to_str(heap, value);
    if (format.is_markup() && !value.is_markup()) piece = html_escape(heap, piece);
    out.append(piece);
    at = close + 1;
  }
  return Value::string(out.finish(), format.is_markup());
}

}  // namespace bulkhead::chat::jinja
