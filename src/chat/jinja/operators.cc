#include "chat/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/library/printf_format.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja {
namespace {

std::string_view symbol_of(ArithmeticOp op) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return "+";
    case ArithmeticOp::kSubtract:
      return "-";
    case ArithmeticOp::kMultiply:
      return "*";
    case ArithmeticOp::kDivide:
      return "/";
    case ArithmeticOp::kFloorDivide:
      return "//";
    case ArithmeticOp::kModulo:
      return "%";
    case ArithmeticOp::kPower:
      return "**";
  }
  return "?";
}

[[noreturn]] void refuse(ArithmeticOp op, const Value& left, const Value& right) {
  for (const Value* each : {&left, &right}) {
    if (each->is_undefined()) fail(std::string(each->view()));
  }
  fail("unsupported operand type(s) for " + std::string(symbol_of(op)) + ": '" +
       std::string(type_name(left)) + "' and '" + std::string(type_name(right)) + "'");
}

[[noreturn]] void refuse_size() { fail("integer result is too large"); }

Int floor_divide(Int left, Int right) {
  if (right == 0) fail("division by zero");
  if (right == -1) {
    Int negated = 0;
    if (__builtin_sub_overflow(static_cast<Int>(0), left, &negated)) refuse_size();
    return negated;
  }
  const Int quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Int floor_modulo(Int left, Int right) {
  if (right == 0) fail("division by zero");
  if (right == -1) return 0;
  const Int rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

Int power(Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) refuse_size();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) refuse_size();
  }
  return result;
}

Value integer_arithmetic(ArithmeticOp op, Int left, Int right) {
  Int result = 0;
  bool overflow = false;
  switch (op) {
    case ArithmeticOp::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case ArithmeticOp::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case ArithmeticOp::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case ArithmeticOp::kDivide:
      if (right == 0) fail("division by zero");
      return Value::floating(static_cast<double>(left) / static_cast<double>(right));
    case ArithmeticOp::kFloorDivide:
      result = floor_divide(left, right);
      break;
    case ArithmeticOp::kModulo:
      result = floor_modulo(left, right);
      break;
    case ArithmeticOp::kPower:
      if (right < 0) {
        if (left == 0) fail("0.0 cannot be raised to a negative power");
        return Value::floating(std::pow(static_cast<double>(left), static_cast<double>(right)));
      }
      result = power(left, right);
      break;
  }
  if (overflow) refuse_size();
  return Value::integer(result);
}

double float_modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest != 0.0) return (right < 0) != (rest < 0) ? rest + right : rest;
  return std::copysign(0.0, right);
}

double float_floor_divide(double left, double right) {
  const double rest = float_modulo(left, right);
  const double quotient = (left - rest) / right;
  if (quotient == 0.0) return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

double float_arithmetic(ArithmeticOp op, double left, double right) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return left + right;
    case ArithmeticOp::kSubtract:
      return left - right;
    case ArithmeticOp::kMultiply:
      return left * right;
    case ArithmeticOp::kPower: {
      if (left == 0.0 && right < 0) fail("0.0 cannot be raised to a negative power");
      const bool complex_result =
          left < 0 && std::isfinite(left) && std::isfinite(right) && std::floor(right) != right;
      if (complex_result) fail("complex numbers are not available in chat templates");
      const double result = std::pow(left, right);
      if (std::isinf(result) && std::isfinite(left) && std::isfinite(right)) {
        fail("Numerical result out of range");
      }
      return result;
    }
    default:
      break;
  }
  if (right == 0.0) fail("float division by zero");
  if (op == ArithmeticOp::kDivide) return left / right;
  return op == ArithmeticOp::kModulo ? float_modulo(left, right) : float_floor_divide(left, right);
}

Value add_strings(Heap& heap, const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  const Str first = markup && !left.is_markup() ? html_escape(heap, left.as_str()) : left.as_str();
  const Str second =
      markup && !right.is_markup() ? html_escape(heap, right.as_str()) : right.as_str();
  return Value::string(concat(heap, first, second), markup);
}

Value add_sequences(Heap& heap, const Value& left, const Value& right) {
  heap.charge_memory((left.size() + right.size()) * sizeof(Value));
  std::vector<Value> items(left.begin(), left.end());
  items.insert(items.end(), right.begin(), right.end());
  ListObject* list = heap.make<ListObject>();
  list->items = std::move(items);
  return left.is(Kind::kList) ? Value::list(list) : Value::tuple(list);
}

bool is_repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

}  // namespace

Value repeat(Heap& heap, const Value& value, Int count) {
  const Int size = static_cast<Int>(value.is_string() ? value.as_str().size : value.size());
  const Int unit = value.is_string() ? 1 : static_cast<Int>(sizeof(Value));
  if (count <= 0 || size == 0) count = 0;
  Int total = 0;
  if (__builtin_mul_overflow(size * unit, count, &total) || total > (static_cast<Int>(1) << 62)) {
    fail_limit("the chat template exceeds its memory limit");
  }
  if (value.is_string()) {
    heap.check_string_size(static_cast<uint64_t>(total));
    StringBuilder text(heap);
    for (Int i = 0; i < count; ++i) text.append(value.as_str());
    return Value::string(text.finish(), value.is_markup());
  }
  heap.charge_memory(static_cast<uint64_t>(total));
  ListObject* list = heap.make<ListObject>();
  list->items.reserve(static_cast<size_t>(size * count));
  for (Int i = 0; i < count; ++i) {
    list->items.insert(list->items.end(), value.begin(), value.end());
  }
  return value.is(Kind::kList) ? Value::list(list) : Value::tuple(list);
}

Value arithmetic(Heap& heap, ArithmeticOp op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) {
      return integer_arithmetic(op, left.as_int(), right.as_int());
    }
    return Value::floating(float_arithmetic(op, left.as_double(), right.as_double()));
  }
  if (op == ArithmeticOp::kAdd) {
    if (left.is_string() && right.is_string()) return add_strings(heap, left, right);
    if (left.is_sequence() && right.kind() == left.kind()) {
      return add_sequences(heap, left, right);
    }
  }
  if (op == ArithmeticOp::kMultiply) {
    if (is_repeatable(left) && right.is_integral()) return repeat(heap, left, right.as_int());
    if (left.is_integral() && is_repeatable(right)) return repeat(heap, right, left.as_int());
  }
  if (op == ArithmeticOp::kModulo && left.is_string()) {
    return printf_format(heap, left, right);
  }
  refuse(op, left, right);
}

Value signed_value(const Value& value, bool negative) {
  if (value.is_undefined()) fail(std::string(value.view()));
  if (value.is(Kind::kFloat)) {
    return Value::floating(negative ? -value.as_double() : value.as_double());
  }
  if (!value.is_integral()) {
    fail("bad operand type for unary " + std::string(negative ? "-" : "+") + ": '" +
         std::string(type_name(value)) + "'");
  }
  return integer_arithmetic(negative ? ArithmeticOp::kSubtract : ArithmeticOp::kAdd, 0,
                            value.as_int());
}

bool compare_values(Heap& heap, CompareOp op, const Value& left, const Value& right) {
  const auto nan = [](const Value& value) {
    return value.is(Kind::kFloat) && std::isnan(value.as_double());
  };
  switch (op) {
    case CompareOp::kEqual:
      return equal(heap, left, right);
    case CompareOp::kNotEqual:
      return !equal(heap, left, right);
    case CompareOp::kIn:
      return contains(heap, right, left);
    case CompareOp::kNotIn:
      return !contains(heap, right, left);
    default:
      break;
  }
  const int order = compare(heap, left, right);
  if (nan(left) || nan(right)) return false;
  switch (op) {
    case CompareOp::kLess:
      return order < 0;
    case CompareOp::kLessEqual:
      return order <= 0;
    case CompareOp::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

namespace {

struct Indices {
  Int start = 0;
  Int stop = 0;
  Int step = 1;
  size_t count = 0;
};

// Python's slice.indices.
Indices resolve(const SliceBounds& bounds, size_t size) {
  Indices out;
  const Int length = static_cast<Int>(size);
  out.step = bounds.step.is_none() ? 1 : bounds.step.as_int();
  if (out.step == 0) fail("slice step cannot be zero");
  const bool forward = out.step > 0;
  const auto clamp = [&](const Value& bound, Int otherwise) {
    if (bound.is_none()) return otherwise;
    Int at = bound.as_int();
    if (at < 0) at = at < -length ? (forward ? 0 : -1) : at + length;
    return std::min(at, forward ? length : length - 1);
  };
  out.start = clamp(bounds.start, forward ? 0 : length - 1);
  out.stop = clamp(bounds.stop, forward ? length : -1);
  RangeObject range;
  range.start = out.start;
  range.stop = out.stop;
  range.step = out.step;
  out.count = range.length();
  return out;
}

Value slice_string(Heap& heap, const Value& value, const SliceBounds& bounds) {
  const Str text = value.as_str();
  const Indices indices = resolve(bounds, count_characters(heap, text.view()));
  if (indices.step == 1) {
    return Value::string(characters(heap, text, static_cast<size_t>(indices.start), indices.count),
                         value.is_markup());
  }
  const Value all = to_list(heap, value);
  StringBuilder out(heap);
  Int at = indices.start;
  for (size_t i = 0; i < indices.count; ++i, at += indices.step) {
    out.append(all.begin()[static_cast<size_t>(at)].as_str());
  }
  return Value::string(out.finish(), value.is_markup());
}

Value slice_range(Heap& heap, const RangeObject& range, const SliceBounds& bounds) {
  const Indices indices = resolve(bounds, range.length());
  RangeObject* out = heap.make<RangeObject>();
  Int step = 0;
  if (__builtin_mul_overflow(indices.step, range.step, &step)) refuse_size();
  out->start = range.start + indices.start * range.step;
  out->stop = range.start + indices.stop * range.step;
  out->step = step;
  return Value::object(Kind::kRange, out);
}

}  // namespace

Value slice(Heap& heap, const Value& value, const SliceBounds& bounds) {
  for (const Value* bound : {&bounds.start, &bounds.stop, &bounds.step}) {
    if (!bound->is_none() && !bound->is_integral()) fail("slice indices must be integers or None");
  }
  if (value.is_string()) return slice_string(heap, value, bounds);
  if (value.is(Kind::kRange)) return slice_range(heap, *value.as_range(), bounds);
  if (!value.is_sequence()) {
    fail("'" + std::string(type_name(value)) + "' object is not subscriptable by a slice");
  }
  const Indices indices = resolve(bounds, value.size());
  if (indices.step == 1) {
    const size_t start = indices.count == 0 ? 0 : static_cast<size_t>(indices.start);
    return Value::window(value.kind(), value.list_storage(), value.list_offset() + start,
                         indices.count);
  }
  heap.charge_memory(indices.count * sizeof(Value));
  ListObject* list = heap.make<ListObject>();
  list->items.reserve(indices.count);
  Int at = indices.start;
  for (size_t i = 0; i < indices.count; ++i, at += indices.step) {
    list->items.push_back(value.begin()[static_cast<size_t>(at)]);
  }
  return value.is(Kind::kList) ? Value::list(list) : Value::tuple(list);
}

}  // namespace bulkhead::chat::jinja
