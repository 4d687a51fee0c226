// The tests of `is`.
#include <algorithm>
#include <array>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/library/filters.h"
#include "chat/jinja/library/parameters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja {
namespace {

void no_arguments(const Arguments& arguments) { const Parameters none("test", arguments, {}); }

template <Kind kKind>
bool is_kind(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is(kKind);
}

template <CompareOp kOp>
bool compares(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given("test", arguments, {"other"}, 1);
  return compare_values(in.heap(), kOp, value, given[0]);
}

template <bool kWanted>
bool is_flag(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is(Kind::kBool) && value.as_bool() == kWanted;
}

bool divisible(Interpreter& in, const Value& value, const Value& by) {
  const Value rest = arithmetic(in.heap(), ArithmeticOp::kModulo, value, by);
  return rest.is_number() && rest.as_double() == 0.0;
}

bool is_divisible(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given("divisibleby", arguments, {"num"}, 1);
  return divisible(in, value, given[0]);
}

bool is_even(Interpreter& in, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return divisible(in, value, Value::integer(2));
}

bool is_odd(Interpreter& in, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  const Value rest = arithmetic(in.heap(), ArithmeticOp::kModulo, value, Value::integer(2));
  return rest.is_number() && rest.as_double() == 1.0;
}

bool is_callable(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is(Kind::kFunction) || value.is(Kind::kMacro) || value.is(Kind::kLoop) ||
         value.is_undefined();  // Undefined has a __call__, which raises
}

bool is_defined(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return !value.is_undefined();
}

bool is_escaped(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is_markup();
}

bool is_iterable_test(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return is_iterable(value) || value.is(Kind::kLoop);
}

bool is_number(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is_number();
}

// Anything with a length and subscripts, which Undefined has too; ranges and dicts included.
bool is_sequence(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is_string() || value.is_sequence() || value.is(Kind::kDict) ||
         value.is(Kind::kRange) || value.is_undefined();
}

template <bool kUpper>
bool is_case(Interpreter& in, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return has_case(in.heap(), to_str(in.heap(), value).view(), kUpper);
}

bool is_filter_name(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is_string() && find_filter(value.view()) != nullptr;
}

bool is_test_name(Interpreter&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return value.is_string() && find_test(value.view()) != nullptr;
}

// Identity. Python shares small integers and interned strings; equality of those is the nearest
// meaning that does not depend on how a value came to be.
bool is_same(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given("sameas", arguments, {"other"}, 1);
  const Value& other = given[0];
  if (value.kind() != other.kind()) return false;
  if (value.is_sequence()) {
    return value.raw() == other.raw() && value.list_offset() == other.list_offset() &&
           value.size() == other.size();
  }
  if (value.is(Kind::kDict)) return value.raw() == other.raw();
  return equal(in.heap(), value, other);
}

constexpr std::array kTests = {
    TestEntry{"!=", compares<CompareOp::kNotEqual>},
    TestEntry{"<", compares<CompareOp::kLess>},
    TestEntry{"<=", compares<CompareOp::kLessEqual>},
    TestEntry{"==", compares<CompareOp::kEqual>},
    TestEntry{">", compares<CompareOp::kGreater>},
    TestEntry{">=", compares<CompareOp::kGreaterEqual>},
    TestEntry{"boolean", is_kind<Kind::kBool>},
    TestEntry{"callable", is_callable},
    TestEntry{"defined", is_defined},
    TestEntry{"divisibleby", is_divisible},
    TestEntry{"eq", compares<CompareOp::kEqual>},
    TestEntry{"equalto", compares<CompareOp::kEqual>},
    TestEntry{"escaped", is_escaped},
    TestEntry{"even", is_even},
    TestEntry{"false", is_flag<false>},
    TestEntry{"filter", is_filter_name},
    TestEntry{"float", is_kind<Kind::kFloat>},
    TestEntry{"ge", compares<CompareOp::kGreaterEqual>},
    TestEntry{"greaterthan", compares<CompareOp::kGreater>},
    TestEntry{"gt", compares<CompareOp::kGreater>},
    TestEntry{"in", compares<CompareOp::kIn>},
    TestEntry{"integer", is_kind<Kind::kInt>},
    TestEntry{"iterable", is_iterable_test},
    TestEntry{"le", compares<CompareOp::kLessEqual>},
    TestEntry{"lessthan", compares<CompareOp::kLess>},
    TestEntry{"lower", is_case<false>},
    TestEntry{"lt", compares<CompareOp::kLess>},
    TestEntry{"mapping", is_kind<Kind::kDict>},
    TestEntry{"ne", compares<CompareOp::kNotEqual>},
    TestEntry{"none", is_kind<Kind::kNone>},
    TestEntry{"number", is_number},
    TestEntry{"odd", is_odd},
    TestEntry{"sameas", is_same},
    TestEntry{"sequence", is_sequence},
    TestEntry{"string", is_kind<Kind::kString>},
    TestEntry{"test", is_test_name},
    TestEntry{"true", is_flag<true>},
    TestEntry{"undefined", is_kind<Kind::kUndefined>},
    TestEntry{"upper", is_case<true>},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto found = std::lower_bound(
      kTests.begin(), kTests.end(), name,
      [](const TestEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != kTests.end() && found->name == name ? &*found : nullptr;
}

}  // namespace bulkhead::chat::jinja
