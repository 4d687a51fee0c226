// Filters over sequences, and tojson.
#include <algorithm>

#include "chat/jinja/library/filter_functions.h"
#include "chat/jinja/library/json_dump.h"
#include "chat/jinja/library/parameters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja::filters {

Value make_iterator(Heap& heap, const std::function<void(std::vector<Value>&)>& fill) {
  IteratorObject* iterator = heap.make<IteratorObject>();
  try {
    fill(iterator->items);
  } catch (const RenderError& error) {
    if (error.code == base::ErrorCode::kResourceExhausted) throw;
    iterator->failure = error;
  }
  heap.charge_memory(iterator->items.size() * sizeof(Value));
  return Value::object(Kind::kIterator, iterator);
}

Value batch(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("batch", arguments, {"linecount", "fill_with"}, 1);
  Heap& heap = in.heap();
  return make_iterator(heap, [&](std::vector<Value>& batches) {
    std::vector<Value> row;
    const auto full = [&] {
      return compare_values(heap, CompareOp::kEqual, given[0], Value::count(row.size()));
    };
    for (const Value& item : to_list(heap, self)) {
      if (full()) batches.push_back(Value::list(make_list(heap, std::exchange(row, {}))));
      row.push_back(item);
    }
    if (row.empty()) return;
    const bool fills = given.has(1) && !given[1].is_none();
    while (fills && static_cast<Int>(row.size()) < given.integer(0, 0)) {
      heap.charge_memory(sizeof(Value));
      row.push_back(given[1]);
    }
    batches.push_back(Value::list(make_list(heap, std::move(row))));
  });
}

Value slices(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("slice", arguments, {"slices", "fill_with"}, 1);
  Heap& heap = in.heap();
  return make_iterator(heap, [&](std::vector<Value>& out) {
    const Value all = to_list(heap, self);
    const Int count = given.integer(0, 0);
    if (count == 0) fail("division by zero");
    const Int length = static_cast<Int>(all.size());
    const Value* from = all.begin();
    for (Int i = 0; i < count; ++i) {
      heap.charge_memory(sizeof(Value));
      const bool extra = i < length % count;
      const Value* to = from + static_cast<size_t>(length / count + (extra ? 1 : 0));
      std::vector<Value> part(from, to);
      if (!extra && given.has(1) && !given[1].is_none()) part.push_back(given[1]);
      out.push_back(Value::list(make_list(heap, std::move(part))));
      from = to;
    }
  });
}

Value first(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("first", arguments, {});
  if (self.is(Kind::kIterator)) {
    IteratorObject& iterator = *self.as_iterator();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    if (iterator.failure) throw *iterator.failure;
    return in.undefined("No first item, sequence was empty.");
  }
  if (self.is_string()) {
    const Str head = characters(in.heap(), self.as_str(), 0, 1);
    if (head.size > 0) return Value::string(head);
    return in.undefined("No first item, sequence was empty.");
  }
  const Value all = to_list(in.heap(), self);
  return all.size() > 0 ? all.begin()[0] : in.undefined("No first item, sequence was empty.");
}

Value last(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("last", arguments, {});
  if (self.is(Kind::kIterator)) {
    fail("'" + std::string(type_name(self)) + "' object is not reversible");
  }
  const Value all = to_list(in.heap(), self);
  return all.size() > 0 ? all.end()[-1] : in.undefined("No last item, sequence was empty.");
}

Value items(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("items", arguments, {});
  return make_iterator(in.heap(), [&](std::vector<Value>& out) {
    if (self.is_undefined()) return;
    if (!self.is(Kind::kDict)) fail("Can only get item pairs from a mapping.");
    ViewObject* view = in.heap().make<ViewObject>();
    view->dict = self.as_dict();
    const Value pairs = to_list(in.heap(), Value::object(Kind::kView, view));
    out.assign(pairs.begin(), pairs.end());
  });
}

Value length(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("length", arguments, {});
  switch (self.kind()) {
    case Kind::kUndefined:
      return Value::count(0);
    case Kind::kString:
      return Value::count(count_characters(in.heap(), self.view()));
    case Kind::kList:
    case Kind::kTuple:
      return Value::count(self.size());
    case Kind::kDict:
      return Value::count(self.as_dict()->entries.size());
    case Kind::kView:
      return Value::count(self.as_view()->dict->entries.size());
    case Kind::kRange:
      return Value::count(self.as_range()->length());
    case Kind::kLoop:
      return Value::count(self.as_loop()->items.size());
    default:
      fail("object of type '" + std::string(type_name(self)) + "' has no len()");
  }
}

Value list(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("list", arguments, {});
  return to_list(in.heap(), self);
}

namespace {

Value map_attribute(Interpreter& in, const Value& items, const Value& attribute) {
  Arguments arguments;
  arguments.named.emplace_back(make_str(in.heap(), "attribute", false), attribute);
  return map(in, to_list(in.heap(), items), arguments);
}

}  // namespace

Value join_items(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("join", arguments, {"d", "attribute"});
  Heap& heap = in.heap();
  Value values = self;
  if (given.has(1) && !given[1].is_none()) values = map_attribute(in, self, given[1]);
  values = to_list(heap, values);
  const Str separator = given.has(0) ? to_str(heap, given[0]) : Str{};
  StringBuilder out(heap);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(to_str(heap, values.begin()[i]));
  }
  return Value::string(out.finish());
}

Value reverse(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("reverse", arguments, {});
  Heap& heap = in.heap();
  if (self.is_string()) {
    return slice(heap, self, {Value::none(), Value::none(), Value::integer(-1)});
  }
  if (!is_iterable(self)) fail("argument must be iterable");
  const Value all = to_list(heap, self);
  std::vector<Value> reversed(all.begin(), all.end());
  std::reverse(reversed.begin(), reversed.end());
  if (self.is(Kind::kIterator) || self.is_undefined()) {
    return Value::list(make_list(heap, std::move(reversed)));
  }
  return make_iterator(heap, [&](std::vector<Value>& out) { out = std::move(reversed); });
}

Value sum(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("sum", arguments, {"attribute", "start"});
  Heap& heap = in.heap();
  Value values = to_list(heap, self);
  if (given.has(0) && !given[0].is_none()) {
    values = to_list(heap, map_attribute(in, values, given[0]));
  }
  Value total = given.get(1, Value::integer(0));
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& value : values) {
    heap.charge_step();
    total = arithmetic(heap, ArithmeticOp::kAdd, total, value);
  }
  return total;
}

Value default_value(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("default", arguments, {"default_value", "boolean"});
  const bool replaces =
      self.is_undefined() || (given.flag(1, false, in.heap()) && !truthy(in.heap(), self));
  if (!replaces) return self;
  return given.get(0, Value::string(Str{}));
}

Value to_json(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("tojson", arguments,
                         {"ensure_ascii", "indent", "separators", "sort_keys"});
  Heap& heap = in.heap();
  JsonStyle style;
  style.ensure_ascii = given.flag(0, false, heap);
  style.sort_keys = given.flag(3, false, heap);
  style.multi_line = given.has(1) && !given[1].is_none();
  if (style.multi_line) {
    style.indent = given[1].is_string()
                       ? given.string(1)
                       : pad(heap, Str{}, given.integer(1, 0), make_str(heap, " ", false), '<');
  }
  style.item_separator = make_str(heap, style.multi_line ? "," : ", ", false);
  style.key_separator = make_str(heap, ": ", false);
  if (given.has(2) && !given[2].is_none()) {
    const Value separators = to_list(heap, given[2]);
    const bool pair = separators.size() == 2 && separators.begin()[0].is_string() &&
                      separators.begin()[1].is_string();
    if (!pair) fail("tojson: separators must be two strings");
    style.item_separator = separators.begin()[0].as_str();
    style.key_separator = separators.begin()[1].as_str();
  }
  StringBuilder out(heap);
  dump_json(heap, out, self, style);
  return Value::string(out.finish());
}

}  // namespace bulkhead::chat::jinja::filters
