// Filters that pick, order and map items by attributes and tests.
#include <algorithm>

#include "chat/jinja/library/filter_functions.h"
#include "chat/jinja/library/parameters.h"
#include "chat/jinja/library/stable_order.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja::filters {
namespace {

// "a.b.0": getitem by each part, numbers as indices; none: the item itself.
class AttributeGetter {
 public:
  AttributeGetter(Interpreter& in, const Value& attribute, const Value& fallback = Value::none())
      : in_(in), fallback_(fallback) {
    if (attribute.is_none()) return;
    if (!attribute.is_string()) {
      parts_.push_back(attribute);
      return;
    }
    const Str dot = make_str(in.heap(), ".", false);
    for (const Str& part : split(in.heap(), attribute.as_str(), &dot, -1)) {
      const std::string_view text = part.view();
      const bool number =
          !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
      Int index = 0;
      for (const char c : number ? text : std::string_view()) {
        index = std::min<Int>(index * 10 + (c - '0'), Int{1} << 62);
      }
      parts_.push_back(number ? Value::integer(index) : Value::string(part));
    }
  }

  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      in_.heap().charge_step();
      item = in_.get_item(item, part);
      if (item.is_undefined() && !fallback_.is_none()) item = fallback_;
    }
    return item;
  }

 private:
  Interpreter& in_;
  Value fallback_;
  std::vector<Value> parts_;
};

Value fold_case(Heap& heap, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return Value::string(map_case(heap, value.as_str(), CaseMap::kLower), value.is_markup());
}

// Stable, by key; keys are made once each.
std::vector<Value> sorted_by(Heap& heap, const Value& items, const std::vector<Value>& keys,
                             bool descending) {
  heap.charge_memory(keys.size() * (2 * sizeof(size_t) + sizeof(Value)));
  const std::vector<size_t> order = stable_order(keys.size(), [&](size_t a, size_t b) {
    heap.charge_step();
    return descending ? compare(heap, keys[b], keys[a]) < 0 : compare(heap, keys[a], keys[b]) < 0;
  });
  std::vector<Value> out;
  out.reserve(order.size());
  for (const size_t i : order) out.push_back(items.begin()[i]);
  return out;
}

Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.named = arguments.named;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  return rest;
}

Value select_or_reject(Interpreter& in, const Value& self, const Arguments& arguments, bool keep,
                       bool by_attribute) {
  Heap& heap = in.heap();
  return make_iterator(heap, [&](std::vector<Value>& kept) {
    if (!truthy(heap, self)) return;
    const auto& given = arguments.positional;
    const size_t test_at = by_attribute ? 1 : 0;
    if (by_attribute && given.empty()) fail("Missing parameter for attribute name");
    const AttributeGetter getter(in, by_attribute ? given[0] : Value::none());
    const bool has_test = given.size() > test_at;
    const Arguments rest = has_test ? without_first(arguments, test_at + 1) : Arguments{};
    for (const Value& item : to_list(heap, self)) {
      heap.charge_step();
      const Value value = getter(item);
      const bool passes =
          has_test ? in.call_test(given[test_at], value, rest) : truthy(heap, value);
      if (passes == keep) kept.push_back(item);
    }
  });
}

Value extreme(Interpreter& in, const Value& self, const Arguments& arguments, int sign) {
  const Parameters given("min/max", arguments, {"case_sensitive", "attribute"});
  Heap& heap = in.heap();
  const Value all = to_list(heap, self);
  if (all.size() == 0) return in.undefined("No aggregated item, sequence was empty.");
  const bool case_sensitive = given.flag(0, false, heap);
  const AttributeGetter getter(in, given.get(1, Value::none()));
  Value best = all.begin()[0];
  Value best_key = fold_case(heap, getter(best), case_sensitive);
  for (const Value* item = all.begin() + 1; item != all.end(); ++item) {
    const Value key = fold_case(heap, getter(*item), case_sensitive);
    if (compare(heap, key, best_key) * sign <= 0) continue;
    best = *item;
    best_key = key;
  }
  return best;
}

}  // namespace

Value attribute(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("attr", arguments, {"name"}, 1);
  const Value name = Value::string(given.string(0));
  if (self.is(Kind::kDict)) {  // only the attribute, never the key
    Value out;
    if (find_attribute(in.heap(), self, name.view(), out)) return out;
    return in.undefined("'dict object' has no attribute '" + std::string(name.view()) + "'");
  }
  return in.get_attribute(self, name);
}

Value dict_sort(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Heap& heap = in.heap();
  const std::string_view by = given.has(1) ? given.string(1).view() : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (!self.is(Kind::kDict)) {
    fail("'" + std::string(type_name(self)) + " object' has no attribute 'items'");
  }
  const Value pairs = to_list(heap, items(in, self, {}));
  const bool case_sensitive = given.flag(0, false, heap);
  std::vector<Value> keys;
  for (const Value& pair : pairs) {
    keys.push_back(fold_case(heap, pair.begin()[by == "key" ? 0 : 1], case_sensitive));
  }
  return Value::list(make_list(heap, sorted_by(heap, pairs, keys, given.flag(2, false, heap))));
}

Value sort(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Heap& heap = in.heap();
  const Value all = to_list(heap, self);
  const bool case_sensitive = given.flag(1, false, heap);
  std::vector<AttributeGetter> getters;
  const Value attributes = given.get(2, Value::none());
  if (attributes.is_string()) {
    const Str comma = make_str(heap, ",", false);
    for (const Str& each : split(heap, attributes.as_str(), &comma, -1)) {
      getters.emplace_back(in, Value::string(each));
    }
  } else {
    getters.emplace_back(in, attributes);
  }
  std::vector<Value> keys;
  for (const Value& item : all) {
    std::vector<Value> parts;
    for (const AttributeGetter& getter : getters) {
      parts.push_back(fold_case(heap, getter(item), case_sensitive));
    }
    keys.push_back(Value::list(make_list(heap, std::move(parts))));
  }
  return Value::list(make_list(heap, sorted_by(heap, all, keys, given.flag(0, false, heap))));
}

Value group_by(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  Heap& heap = in.heap();
  const Value all = to_list(heap, self);
  const bool case_sensitive = given.flag(2, false, heap);
  const AttributeGetter getter(in, given[0], given.get(1, Value::none()));
  std::vector<Value> keys;
  for (const Value& item : all) keys.push_back(fold_case(heap, getter(item), case_sensitive));
  const std::vector<Value> sorted = sorted_by(heap, all, keys, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < sorted.size();) {
    const Value key = getter(sorted[i]);
    const Value folded = fold_case(heap, key, case_sensitive);
    std::vector<Value> members;
    while (i < sorted.size() &&
           equal(heap, fold_case(heap, getter(sorted[i]), case_sensitive), folded)) {
      members.push_back(sorted[i++]);
    }
    if (members.empty()) members.push_back(sorted[i++]);  // NaN equals nothing, not even itself
    const Value list = Value::list(make_list(heap, std::move(members)));
    groups.push_back(Value::tuple(make_list(heap, {key, list})));
  }
  return Value::list(make_list(heap, std::move(groups)));
}

namespace {

void map_by_attribute(Interpreter& in, const Value& self, const Arguments& arguments,
                      std::vector<Value>& out) {
  const Value* wanted = nullptr;
  Value fallback = Value::none();
  for (const auto& [name, value] : arguments.named) {
    if (name.view() == "attribute") {
      wanted = &value;
    } else if (name.view() == "default") {
      fallback = value;
    } else {
      fail("Unexpected keyword argument '" + std::string(name.view()) + "'");
    }
  }
  if (wanted == nullptr) fail("map requires a filter argument");
  const AttributeGetter getter(in, *wanted, fallback);
  for (const Value& item : to_list(in.heap(), self)) out.push_back(getter(item));
}

}  // namespace

Value map(Interpreter& in, const Value& self, const Arguments& arguments) {
  Heap& heap = in.heap();
  return make_iterator(heap, [&](std::vector<Value>& out) {
    if (!truthy(heap, self)) return;
    if (arguments.positional.empty()) return map_by_attribute(in, self, arguments, out);
    const Arguments rest = without_first(arguments, 1);
    for (const Value& item : to_list(heap, self)) {
      out.push_back(in.call_filter(arguments.positional[0], item, rest));
    }
  });
}

Value maximum(Interpreter& in, const Value& self, const Arguments& arguments) {
  return extreme(in, self, arguments, 1);
}

Value minimum(Interpreter& in, const Value& self, const Arguments& arguments) {
  return extreme(in, self, arguments, -1);
}

Value reject(Interpreter& in, const Value& self, const Arguments& arguments) {
  return select_or_reject(in, self, arguments, false, false);
}

Value reject_attribute(Interpreter& in, const Value& self, const Arguments& arguments) {
  return select_or_reject(in, self, arguments, false, true);
}

Value select(Interpreter& in, const Value& self, const Arguments& arguments) {
  return select_or_reject(in, self, arguments, true, false);
}

Value select_attribute(Interpreter& in, const Value& self, const Arguments& arguments) {
  return select_or_reject(in, self, arguments, true, true);
}

Value unique(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("unique", arguments, {"case_sensitive", "attribute"});
  Heap& heap = in.heap();
  const bool case_sensitive = given.flag(0, false, heap);
  const AttributeGetter getter(in, given.get(1, Value::none()));
  return make_iterator(heap, [&](std::vector<Value>& out) {
    DictObject* seen = heap.make<DictObject>();
    for (const Value& item : to_list(heap, self)) {
      const Value key = fold_case(heap, getter(item), case_sensitive);
      const size_t before = seen->entries.size();
      dict_set(heap, *seen, key, Value::none());
      if (seen->entries.size() > before) out.push_back(item);
    }
  });
}

}  // namespace bulkhead::chat::jinja::filters
