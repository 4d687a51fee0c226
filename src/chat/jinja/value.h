// The values a template computes with: Python's, as far as chat templates need them.
//
// Threads: a value belongs to the heap it was made in.
// Invariants: strings are valid UTF-8 and every byte carries a mark saying whether it was written
// in the template (trusted); lists, tuples and strings are immutable views, so slices share
// storage; only namespaces change; nesting of containers that recursive operations walk is bounded
// by kMaxValueDepth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/heap.h"

namespace bulkhead::chat::jinja {

__extension__ typedef __int128
    Int;  // holds every JSON integer Boost can read, with overflow checks

inline constexpr uint32_t kMaxValueDepth = 200;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,  // dict.keys(), .values(), .items()
  kRange,
  kIterator,  // what lazy filters return: iterable once, always true, no length
  kNamespace,
  kFunction,  // a global or a bound method
  kMacro,
  kLoop,
};

// Text and its marks, byte for byte.
struct Buffer final : Object {
  std::string bytes;
  std::string marks;      // kTrustedMark or kUntrustedMark, as long as `bytes`
  bool growable = false;  // made by this render: an append to its end may extend it in place
};
inline constexpr char kTrustedMark = 1;
inline constexpr char kUntrustedMark = 0;

// A window on a buffer.
struct Str {
  Buffer* buffer = nullptr;
  size_t offset = 0;  // bytes
  size_t size = 0;    // bytes

  std::string_view view() const {
    return buffer == nullptr ? std::string_view()
                             : std::string_view(buffer->bytes).substr(offset, size);
  }
  std::string_view marks() const {
    return buffer == nullptr ? std::string_view()
                             : std::string_view(buffer->marks).substr(offset, size);
  }
  Str sub(size_t from, size_t count) const { return Str{buffer, offset + from, count}; }
};

class Value;
struct ListObject;
struct DictObject;
struct ViewObject;
struct RangeObject;
struct IteratorObject;
struct NamespaceObject;
struct FunctionObject;
struct MacroObject;
struct LoopObject;

class Value {
 public:
  Value() = default;  // undefined, without a name

  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool flag) {
    Value value(Kind::kBool);
    value.data_.low = flag ? 1 : 0;
    return value;
  }
  static Value integer(Int number) {
    Value value(Kind::kInt);
    value.data_.low = static_cast<uint64_t>(number);
    value.data_.high = static_cast<uint64_t>(number >> 64);
    return value;
  }
  static Value count(size_t number) { return integer(static_cast<Int>(number)); }
  static Value floating(double number);
  static Value string(Str text, bool markup = false) {
    Value value(Kind::kString);
    value.flag_ = markup;
    value.set_window(text.buffer, text.offset, text.size);
    return value;
  }
  static Value list(ListObject* items);
  static Value tuple(ListObject* items);
  static Value window(Kind kind, Object* items, size_t offset, size_t size) {
    Value value(kind);
    value.set_window(items, offset, size);
    return value;
  }
  static Value dict(DictObject* dict);
  static Value object(Kind kind, Object* object) {
    Value value(kind);
    value.data_.object = object;
    return value;
  }
  // `what` is the whole complaint raised when the value is used; it must outlive the render.
  static Value undefined(Str what) {
    Value value(Kind::kUndefined);
    value.set_window(what.buffer, what.offset, what.size);
    return value;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_markup() const { return kind_ == Kind::kString && flag_; }

  bool as_bool() const { return data_.low != 0; }
  Int as_int() const;        // kInt or kBool
  double as_double() const;  // any number
  Str as_str() const { return Str{static_cast<Buffer*>(data_.object), data_.offset, data_.size}; }
  std::string_view view() const { return as_str().view(); }
  size_t size() const { return data_.size; }  // kList, kTuple
  const Value* begin() const;                 // kList, kTuple
  const Value* end() const;
  ListObject* list_storage() const;
  size_t list_offset() const { return data_.offset; }
  Object* raw() const { return data_.object; }
  DictObject* as_dict() const;
  ViewObject* as_view() const;
  RangeObject* as_range() const;
  IteratorObject* as_iterator() const;
  NamespaceObject* as_namespace() const;
  FunctionObject* as_function() const;
  MacroObject* as_macro() const;
  LoopObject* as_loop() const;

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  void set_window(Object* object, size_t offset, size_t size) {
    data_.object = object;
    data_.offset = offset;
    data_.size = size;
  }

  struct Data {
    Object* object = nullptr;
    union {
      size_t offset = 0;
      uint64_t low;
      double number;
    };
    union {
      size_t size = 0;
      uint64_t high;
    };
  } data_;
  Kind kind_ = Kind::kUndefined;
  bool flag_ = false;
};

struct ListObject final : Object {
  std::vector<Value> items;
};

// Insertion-ordered, keyed as Python keys: 1, 1.0 and true are one key.
struct DictObject final : Object {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<uint64_t, size_t> index;  // hash -> entry, used above kLinearEntries

  static constexpr size_t kLinearEntries = 8;
};

struct ViewObject final : Object {
  enum class What : uint8_t { kKeys, kValues, kItems };
  DictObject* dict = nullptr;
  What what = What::kItems;
};

struct RangeObject final : Object {
  Int start = 0;
  Int stop = 0;
  Int step = 1;

  size_t length() const;
};

struct IteratorObject final : Object {
  std::vector<Value> items;
  size_t next = 0;
  // What ends the iteration instead of its end: a lazy filter fails where it is used, not made.
  std::optional<RenderError> failure;
};

struct NamespaceObject final : Object {
  DictObject* attributes = nullptr;
};

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Str, Value>> named;
};

using NativeFunction = Value (*)(Interpreter&, const Value& self, const Arguments& arguments);

struct FunctionObject final : Object {
  const char* name = "";
  NativeFunction function = nullptr;
  Value self;
};

// Strings.
Str make_str(Heap& heap, std::string_view text, bool trusted);
Value make_string(Heap& heap, std::string_view text, bool trusted = false);

// Collects a string piece by piece, marks included.
class StringBuilder {
 public:
  explicit StringBuilder(Heap& heap) : heap_(heap) {}

  void append(const Str& piece) {
    grow(piece.size);
    bytes_.append(piece.view());
    marks_.append(piece.marks());
  }
  void append(std::string_view piece, bool trusted = false) {
    grow(piece.size());
    bytes_.append(piece);
    marks_.append(piece.size(), trusted ? kTrustedMark : kUntrustedMark);
  }
  void append_marked(std::string_view piece, char mark) { append(piece, mark == kTrustedMark); }
  size_t size() const { return bytes_.size(); }
  std::string_view view() const { return bytes_; }
  std::string_view marks() const { return marks_; }
  Str finish();

 private:
  void grow(size_t more) {
    heap_.check_string_size(bytes_.size() + more);
    heap_.charge_memory(2 * more);
  }

  Heap& heap_;
  std::string bytes_;
  std::string marks_;
};

// left + right; extends left's buffer in place when nothing else follows it there.
Str concat(Heap& heap, const Str& left, const Str& right);

// Containers.
ListObject* make_list(Heap& heap, std::vector<Value> items);
const Value* dict_find(Heap& heap, const DictObject& dict, const Value& key);
const Value* dict_find(const DictObject& dict, std::string_view key);
void dict_set(Heap& heap, DictObject& dict, const Value& key, const Value& value);

// Python semantics.
bool truthy(Heap& heap, const Value& value);
bool equal(Heap& heap, const Value& left, const Value& right);
// -1, 0, 1; fails for kinds that Python does not order.
int compare(Heap& heap, const Value& left, const Value& right);
bool contains(Heap& heap, const Value& container, const Value& item);
// Fails for containers, as Python does.
uint64_t hash(Heap& heap, const Value& value, uint32_t depth = 0);
bool is_iterable(const Value& value);
// The items of anything iterable as one list (an iterator is used up).
Value to_list(Heap& heap, const Value& value);
// Python's type name.
std::string_view type_name(const Value& value);

// Text forms.
std::string float_repr(double number);
std::string int_text(Int number);
Str to_str(Heap& heap, const Value& value);  // str(value)
void append_repr(Heap& heap, StringBuilder& out, const Value& value, uint32_t depth = 0);

}  // namespace bulkhead::chat::jinja
