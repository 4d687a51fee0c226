// Filters over numbers.
#include <array>
#include <cmath>
#include <cstdio>

#include "chat/jinja/library/filter_functions.h"
#include "chat/jinja/library/parameters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/syntax/literals.h"

namespace bulkhead::chat::jinja::filters {
namespace {

// int(number); false for what has no integer.
bool truncated(double number, Int& out) {
  if (!std::isfinite(number)) return false;
  if (std::abs(number) >= 0x1p126) fail("integer result is too large");
  out = static_cast<Int>(number);
  return true;
}

// `number` rounded half to even at `digits` decimals, as Python's round(float, digits).
double round_decimals(double number, Int digits) {
  if (!std::isfinite(number) || digits > 300) return number;
  if (digits < -308) return std::copysign(0.0, number);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / unit) * unit;
  }
  std::array<char, 720> text;
  const int size =
      std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), number);
  double out = number;
  parse_python_float(std::string_view(text.data(), static_cast<size_t>(size)), out);
  return out;
}

// round(integer, -digits): half to even.
Int round_integer(Int number, Int digits) {
  if (digits >= 0) return number;
  if (digits < -38) return 0;
  Int unit = 1;
  for (Int i = 0; i > digits; --i) {
    if (__builtin_mul_overflow(unit, static_cast<Int>(10), &unit)) return 0;
  }
  Int rest = number % unit;
  if (rest < 0) rest += unit;
  const Int down = number - rest;
  const Int half = unit / 2;
  const bool up = rest > half || (rest == half && (down / unit) % 2 != 0);
  return up ? down + unit : down;
}

}  // namespace

Value absolute(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters none("abs", arguments, {});
  if (self.is_undefined()) fail(std::string(self.view()));
  if (!self.is_number()) fail("bad operand type for abs(): '" + std::string(type_name(self)) + "'");
  if (self.is(Kind::kFloat)) return Value::floating(std::abs(self.as_double()));
  return signed_value(self, self.as_int() < 0);
}

Value file_size(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("filesizeformat", arguments, {"binary"});
  double bytes = 0.0;
  if (self.is_string() ? !parse_python_float(self.view(), bytes) : !self.is_number()) {
    fail("filesizeformat needs a number");
  }
  if (!self.is_string()) bytes = self.as_double();
  const bool binary = given.flag(0, false, in.heap());
  const double base = binary ? 1024.0 : 1000.0;
  if (bytes == 1.0) return make_string(in.heap(), "1 Byte");
  if (bytes < base) {
    Int whole = 0;
    if (!truncated(bytes, whole)) fail("cannot convert float to integer");
    return make_string(in.heap(), int_text(whole) + " Bytes");
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  while (i + 1 < kPrefixes.size() && bytes >= unit) {
    unit *= base;
    ++i;
  }
  std::array<char, 400> text;
  const int size = std::snprintf(text.data(), text.size(), "%.1f", base * bytes / unit);
  std::string out(text.data(), static_cast<size_t>(size));
  out += ' ';
  out += binary && i == 0 ? 'K' : kPrefixes[i];
  return make_string(in.heap(), out + (binary ? "iB" : "B"));
}

Value to_float(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters given("float", arguments, {"default"});
  if (self.is_undefined()) fail(std::string(self.view()));
  double number = 0.0;
  if (self.is_number()) return Value::floating(self.as_double());
  if (self.is_string() && parse_python_float(self.view(), number)) return Value::floating(number);
  return given.get(0, Value::floating(0.0));
}

Value to_int(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters given("int", arguments, {"default", "base"});
  if (self.is_undefined()) fail(std::string(self.view()));
  const Value otherwise = given.get(0, Value::integer(0));
  Int whole = 0;
  double number = 0.0;
  if (self.is_integral()) return Value::integer(self.as_int());
  if (self.is(Kind::kFloat)) {
    return truncated(self.as_double(), whole) ? Value::integer(whole) : otherwise;
  }
  if (!self.is_string()) return otherwise;
  const Int base = given.integer(1, 10);
  const bool base_fits = base == 0 || (base >= 2 && base <= 36);
  if (base_fits && parse_python_int(self.view(), static_cast<int>(base), whole)) {
    return Value::integer(whole);
  }
  if (parse_python_float(self.view(), number) && truncated(number, whole)) {
    return Value::integer(whole);
  }
  return otherwise;
}

Value round_number(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters given("round", arguments, {"precision", "method"});
  const Int precision = given.integer(0, 0);
  const std::string_view method = given.has(1) ? given.string(1).view() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("method must be common, ceil or floor");
  }
  if (self.is_undefined()) fail(std::string(self.view()));
  if (!self.is_number()) fail("type " + std::string(type_name(self)) + " cannot be rounded");
  if (method == "common") {
    if (self.is_integral()) return Value::integer(round_integer(self.as_int(), precision));
    return Value::floating(round_decimals(self.as_double(), precision));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.as_double() * scale;
  if (!std::isfinite(scaled)) fail("cannot round this number");
  return Value::floating((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

}  // namespace bulkhead::chat::jinja::filters
