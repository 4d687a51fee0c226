#include "chat/jinja/value.h"

#include <cmath>
#include <functional>

#include "base/utf8.h"

namespace bulkhead::chat::jinja {

Value Value::floating(double number) {
  Value value(Kind::kFloat);
  value.data_.number = number;
  return value;
}

Value Value::list(ListObject* items) { return window(Kind::kList, items, 0, items->items.size()); }

Value Value::tuple(ListObject* items) {
  return window(Kind::kTuple, items, 0, items->items.size());
}

Value Value::dict(DictObject* dict) { return object(Kind::kDict, dict); }

Int Value::as_int() const {
  if (kind_ == Kind::kBool) return static_cast<Int>(data_.low);
  return (static_cast<Int>(data_.high) << 64) | static_cast<Int>(data_.low);
}

double Value::as_double() const {
  return kind_ == Kind::kFloat ? data_.number : static_cast<double>(as_int());
}

const Value* Value::begin() const { return list_storage()->items.data() + data_.offset; }
const Value* Value::end() const { return begin() + data_.size; }
ListObject* Value::list_storage() const { return static_cast<ListObject*>(data_.object); }
DictObject* Value::as_dict() const { return static_cast<DictObject*>(data_.object); }
ViewObject* Value::as_view() const { return static_cast<ViewObject*>(data_.object); }
RangeObject* Value::as_range() const { return static_cast<RangeObject*>(data_.object); }
IteratorObject* Value::as_iterator() const { return static_cast<IteratorObject*>(data_.object); }
NamespaceObject* Value::as_namespace() const { return static_cast<NamespaceObject*>(data_.object); }
FunctionObject* Value::as_function() const { return static_cast<FunctionObject*>(data_.object); }

size_t RangeObject::length() const {
  if (step > 0) return start < stop ? static_cast<size_t>((stop - start - 1) / step + 1) : 0;
  return start > stop ? static_cast<size_t>((start - stop - 1) / -step + 1) : 0;
}

Str make_str(Heap& heap, std::string_view text, bool trusted) {
  StringBuilder builder(heap);
  builder.append(text, trusted);
  return builder.finish();
}

Value make_string(Heap& heap, std::string_view text, bool trusted) {
  return Value::string(make_str(heap, text, trusted));
}

Str StringBuilder::finish() {
  if (bytes_.empty()) return Str{};
  Buffer* buffer = heap_.make<Buffer>();
  buffer->bytes = std::move(bytes_);
  buffer->marks = std::move(marks_);
  buffer->growable = true;
  bytes_.clear();
  marks_.clear();
  return Str{buffer, 0, buffer->bytes.size()};
}

Str concat(Heap& heap, const Str& left, const Str& right) {
  if (left.size == 0) return right;
  if (right.size == 0) return left;
  Buffer* buffer = left.buffer;
  const bool at_end = left.offset + left.size == buffer->bytes.size();
  if (buffer->growable && at_end && buffer != right.buffer) {
    heap.check_string_size(buffer->bytes.size() + right.size);
    heap.charge_memory(2 * right.size);
    buffer->bytes.append(right.view());
    buffer->marks.append(right.marks());
    return Str{buffer, left.offset, left.size + right.size};
  }
  StringBuilder builder(heap);
  builder.append(left);
  builder.append(right);
  return builder.finish();
}

ListObject* make_list(Heap& heap, std::vector<Value> items) {
  heap.charge_memory(items.size() * sizeof(Value));
  ListObject* list = heap.make<ListObject>();
  list->items = std::move(items);
  return list;
}

namespace {

uint64_t mix(uint64_t hash, uint64_t more) {
  return (hash ^ more) * 0x9E3779B97F4A7C15ull + (more >> 29);
}

uint64_t hash_number(const Value& value) {
  if (value.is(Kind::kFloat)) {
    const double number = value.as_double();
    const bool integral = std::abs(number) < 0x1p100 && std::floor(number) == number;
    if (!integral) return std::hash<double>()(number);
    return hash_number(Value::integer(static_cast<Int>(number)));
  }
  const Int number = value.as_int();
  return mix(static_cast<uint64_t>(number), static_cast<uint64_t>(number >> 64));
}

size_t find_entry(Heap& heap, const DictObject& dict, const Value& key, uint64_t key_hash) {
  if (dict.entries.size() <= DictObject::kLinearEntries) {
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (equal(heap, dict.entries[i].first, key)) return i;
    }
    return dict.entries.size();
  }
  const auto [first, last] = dict.index.equal_range(key_hash);
  for (auto it = first; it != last; ++it) {
    if (equal(heap, dict.entries[it->second].first, key)) return it->second;
  }
  return dict.entries.size();
}

}  // namespace

uint64_t hash(Heap& heap, const Value& value, uint32_t depth) {
  if (depth > kMaxValueDepth) fail_limit("a value is nested too deeply");
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<uint64_t>(value.kind());
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return hash_number(value);
    case Kind::kString:
      heap.charge_work(value.as_str().size);
      return std::hash<std::string_view>()(value.view());
    case Kind::kTuple: {
      uint64_t all = value.size();
      for (const Value& item : value) all = mix(all, hash(heap, item, depth + 1));
      heap.charge_work(value.size() * sizeof(Value));
      return all;
    }
    case Kind::kList:
    case Kind::kDict:
      fail("unhashable type: '" + std::string(type_name(value)) + "'");
    default:
      return std::hash<const void*>()(value.raw());
  }
}

const Value* dict_find(Heap& heap, const DictObject& dict, const Value& key) {
  const size_t entry = find_entry(heap, dict, key, hash(heap, key));
  return entry == dict.entries.size() ? nullptr : &dict.entries[entry].second;
}

const Value* dict_find(const DictObject& dict, std::string_view key) {
  if (dict.entries.size() <= DictObject::kLinearEntries) {
    for (const auto& [name, value] : dict.entries) {
      if (name.is_string() && name.view() == key) return &value;
    }
    return nullptr;
  }
  const auto [first, last] = dict.index.equal_range(std::hash<std::string_view>()(key));
  for (auto it = first; it != last; ++it) {
    const auto& [name, value] = dict.entries[it->second];
    if (name.is_string() && name.view() == key) return &value;
  }
  return nullptr;
}

void dict_set(Heap& heap, DictObject& dict, const Value& key, const Value& value) {
  const uint64_t key_hash = hash(heap, key);
  const size_t entry = find_entry(heap, dict, key, key_hash);
  if (entry < dict.entries.size()) {
    dict.entries[entry].second = value;
    return;
  }
  heap.charge_memory(2 * sizeof(Value));
  dict.entries.emplace_back(key, value);
  if (dict.entries.size() <= DictObject::kLinearEntries) return;
  heap.charge_memory(4 * sizeof(uint64_t));
  if (dict.index.empty()) {
    for (size_t i = 0; i + 1 < dict.entries.size(); ++i) {
      dict.index.emplace(hash(heap, dict.entries[i].first), i);
    }
  }
  dict.index.emplace(key_hash, dict.entries.size() - 1);
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView:
      return "dict view";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return "function";
    case Kind::kMacro:
      return "Macro";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

namespace {

std::vector<Value> characters_of(Heap& heap, const Value& value) {
  const Str text = value.as_str();
  heap.charge_memory(text.size * 8);  // most text is one byte a character; settled by make_list
  std::vector<Value> items;
  for (size_t at = 0; at < text.size;) {
    const size_t length = base::decode_utf8(text.view().substr(at)).length;
    items.push_back(Value::string(text.sub(at, length)));  // plain even from markup
    at += length;
  }
  return items;
}

std::vector<Value> items_of_view(Heap& heap, const ViewObject& view) {
  std::vector<Value> items;
  items.reserve(view.dict->entries.size());
  for (const auto& [key, value] : view.dict->entries) {
    switch (view.what) {
      case ViewObject::What::kKeys:
        items.push_back(key);
        break;
      case ViewObject::What::kValues:
        items.push_back(value);
        break;
      case ViewObject::What::kItems:
        items.push_back(Value::tuple(make_list(heap, {key, value})));
        break;
    }
  }
  return items;
}

std::vector<Value> items_of_range(Heap& heap, const RangeObject& range) {
  const size_t length = range.length();
  heap.charge_memory(length * sizeof(Value));
  std::vector<Value> items;
  items.reserve(length);
  for (size_t i = 0; i < length; ++i) {
    items.push_back(Value::integer(range.start + static_cast<Int>(i) * range.step));
  }
  return items;
}

}  // namespace

Value to_list(Heap& heap, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return Value::list(make_list(heap, {}));
    case Kind::kString:
      return Value::list(make_list(heap, characters_of(heap, value)));
    case Kind::kList:
    case Kind::kTuple:
      return Value::window(Kind::kList, value.list_storage(), value.list_offset(), value.size());
    case Kind::kDict: {
      ViewObject keys;
      keys.dict = value.as_dict();
      keys.what = ViewObject::What::kKeys;
      return Value::list(make_list(heap, items_of_view(heap, keys)));
    }
    case Kind::kView:
      return Value::list(make_list(heap, items_of_view(heap, *value.as_view())));
    case Kind::kRange:
      return Value::list(make_list(heap, items_of_range(heap, *value.as_range())));
    case Kind::kIterator: {
      IteratorObject& iterator = *value.as_iterator();
      std::vector<Value> rest(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                              iterator.items.end());
      iterator.next = iterator.items.size();
      if (iterator.failure) throw *iterator.failure;
      return Value::list(make_list(heap, std::move(rest)));
    }
    default:
      fail("'" + std::string(type_name(value)) + "' object is not iterable");
  }
}

bool truthy(Heap&, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0.0;
    case Kind::kString:
      return value.as_str().size != 0;
    case Kind::kList:
    case Kind::kTuple:
      return value.size() != 0;
    case Kind::kDict:
      return !value.as_dict()->entries.empty();
    case Kind::kView:
      return !value.as_view()->dict->entries.empty();
    case Kind::kRange:
      return value.as_range()->length() != 0;
    default:
      return true;
  }
}

}  // namespace bulkhead::chat::jinja
