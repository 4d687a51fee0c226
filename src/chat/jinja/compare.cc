// Equality, order and membership with Python's rules.
#include <algorithm>

#include "chat/jinja/strings.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {
namespace {

// A double against an integer without rounding the integer.
int compare_mixed(double left, Int right) {
  if (left >= 0x1p126) return 1;
  if (left <= -0x1p126) return -1;
  const Int whole = static_cast<Int>(left);
  if (whole != right) return whole < right ? -1 : 1;
  const double rest = left - static_cast<double>(whole);
  return rest < 0 ? -1 : (rest > 0 ? 1 : 0);
}

bool is_nan(const Value& value) {
  return value.is(Kind::kFloat) && value.as_double() != value.as_double();
}

int compare_numbers(const Value& left, const Value& right) {
  const bool left_float = left.is(Kind::kFloat);
  const bool right_float = right.is(Kind::kFloat);
  if (left_float && right_float) {
    const double a = left.as_double();
    const double b = right.as_double();
    return a < b ? -1 : (a > b ? 1 : 0);
  }
  if (left_float) return compare_mixed(left.as_double(), right.as_int());
  if (right_float) return -compare_mixed(right.as_double(), left.as_int());
  const Int a = left.as_int();
  const Int b = right.as_int();
  return a < b ? -1 : (a > b ? 1 : 0);
}

bool equal_at(Heap& heap, const Value& left, const Value& right, uint32_t depth);

bool equal_sequences(Heap& heap, const Value& left, const Value& right, uint32_t depth) {
  if (left.size() != right.size()) return false;
  heap.charge_work(left.size() * sizeof(Value));
  return std::equal(left.begin(), left.end(), right.begin(),
                    [&](const Value& a, const Value& b) { return equal_at(heap, a, b, depth); });
}

bool equal_dicts(Heap& heap, const DictObject& left, const DictObject& right, uint32_t depth) {
  if (left.entries.size() != right.entries.size()) return false;
  heap.charge_work(left.entries.size() * sizeof(Value));
  for (const auto& [key, value] : left.entries) {
    const Value* other = dict_find(heap, right, key);
    if (other == nullptr || !equal_at(heap, value, *other, depth)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& left, const RangeObject& right) {
  const size_t length = left.length();
  if (length != right.length()) return false;
  if (length == 0) return true;
  return left.start == right.start && (length == 1 || left.step == right.step);
}

bool equal_at(Heap& heap, const Value& left, const Value& right, uint32_t depth) {
  if (depth > kMaxValueDepth) fail_limit("a value is nested too deeply to compare");
  if (left.is_number() && right.is_number()) {
    return !is_nan(left) && !is_nan(right) && compare_numbers(left, right) == 0;
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      heap.charge_work(std::min(left.as_str().size, right.as_str().size));
      return left.view() == right.view();
    case Kind::kList:
    case Kind::kTuple:
      return equal_sequences(heap, left, right, depth + 1);
    case Kind::kDict:
      return equal_dicts(heap, *left.as_dict(), *right.as_dict(), depth + 1);
    case Kind::kRange:
      return equal_ranges(*left.as_range(), *right.as_range());
    default:
      return left.raw() == right.raw();
  }
}

int compare_at(Heap& heap, const Value& left, const Value& right, uint32_t depth) {
  if (depth > kMaxValueDepth) fail_limit("a value is nested too deeply to compare");
  if (left.is_number() && right.is_number()) return compare_numbers(left, right);
  if (left.is_string() && right.is_string()) {
    heap.charge_work(std::min(left.as_str().size, right.as_str().size));
    const int order = left.view().compare(right.view());
    return order < 0 ? -1 : (order > 0 ? 1 : 0);
  }
  if (left.is_undefined()) fail(std::string(left.view()));
  if (right.is_undefined()) fail(std::string(right.view()));
  if (left.is_sequence() && left.kind() == right.kind()) {
    const size_t shared = std::min(left.size(), right.size());
    heap.charge_work(shared * sizeof(Value));
    for (size_t i = 0; i < shared; ++i) {
      if (equal_at(heap, left.begin()[i], right.begin()[i], depth)) continue;
      return compare_at(heap, left.begin()[i], right.begin()[i], depth + 1);
    }
    return left.size() < right.size() ? -1 : (left.size() > right.size() ? 1 : 0);
  }
  fail("'<' not supported between instances of '" + std::string(type_name(left)) + "' and '" +
       std::string(type_name(right)) + "'");
}

bool contains_item(Heap& heap, const Value& items, const Value& item) {
  heap.charge_work(items.size() * sizeof(Value));
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& each) { return equal(heap, each, item); });
}

bool range_contains(const RangeObject& range, Int number) {
  const bool inside = range.step > 0 ? number >= range.start && number < range.stop
                                     : number <= range.start && number > range.stop;
  return inside && (number - range.start) % range.step == 0;
}

}  // namespace

bool equal(Heap& heap, const Value& left, const Value& right) {
  return equal_at(heap, left, right, 0);
}

int compare(Heap& heap, const Value& left, const Value& right) {
  return compare_at(heap, left, right, 0);
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      }
      return find_text(heap, container.view(), item.view()) != std::string_view::npos;
    case Kind::kList:
    case Kind::kTuple:
      return contains_item(heap, container, item);
    case Kind::kDict:
      return dict_find(heap, *container.as_dict(), item) != nullptr;
    case Kind::kView:
      if (container.as_view()->what == ViewObject::What::kKeys) {
        return dict_find(heap, *container.as_view()->dict, item) != nullptr;
      }
      return contains_item(heap, to_list(heap, container), item);
    case Kind::kRange:
      if (!item.is_integral()) {
        return item.is(Kind::kFloat) && contains_item(heap, to_list(heap, container), item);
      }
      return range_contains(*container.as_range(), item.as_int());
    case Kind::kIterator:
    case Kind::kUndefined:
      return contains_item(heap, to_list(heap, container), item);
    default:
      fail("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
}

}  // namespace bulkhead::chat::jinja
