// Methods of strings, lists, tuples, dicts and numbers.
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/library/filters.h"
#include "chat/jinja/library/parameters.h"
#include "chat/jinja/library/printf_format.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja {
namespace {

struct Method {
  std::string_view name;
  NativeFunction function;  // null: exists in Python, but the sandbox forbids it
};

Value with_kind_of(const Value& self, const Str& text) {
  return Value::string(text, self.is_markup());
}

Value list_of(Heap& heap, const Value& self, const std::vector<Str>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const Str& part : parts) items.push_back(with_kind_of(self, part));
  return Value::list(make_list(heap, std::move(items)));
}

template <CaseMap kMap>
Value str_map(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("case mapping", arguments, {});
  return with_kind_of(self, map_case(in.heap(), self.as_str(), kMap));
}

template <Str (*kMapping)(Heap&, const Str&)>
Value str_transform(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("case mapping", arguments, {});
  return with_kind_of(self, kMapping(in.heap(), self.as_str()));
}

template <Side kSide>
Value str_strip(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("strip", arguments, {"chars"});
  if (!given.has(0) || given[0].is_none()) {
    return with_kind_of(self, strip(in.heap(), self.as_str(), nullptr, kSide));
  }
  const Str set = given.string(0);
  return with_kind_of(self, strip(in.heap(), self.as_str(), &set, kSide));
}

template <std::vector<Str> (*kSplit)(Heap&, const Str&, const Str*, Int)>
Value str_split(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  const Int max = given.integer(1, -1);
  if (!given.has(0) || given[0].is_none()) {
    return list_of(in.heap(), self, kSplit(in.heap(), self.as_str(), nullptr, max));
  }
  const Str separator = given.string(0);
  return list_of(in.heap(), self, kSplit(in.heap(), self.as_str(), &separator, max));
}

Value str_splitlines(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("splitlines", arguments, {"keepends"});
  return list_of(in.heap(), self,
                 split_lines(in.heap(), self.as_str(), given.flag(0, false, in.heap())));
}

Value str_replace(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("str.replace() takes no keyword arguments");
  const Parameters given("str.replace", arguments, {"old", "new", "count"}, 2);
  Str with = given.string(1);
  if (self.is_markup() && !given[1].is_markup()) with = html_escape(in.heap(), with);
  return with_kind_of(
      self, replace(in.heap(), self.as_str(), given.string(0), with, given.integer(2, -1)));
}

Value str_join(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("str.join", arguments, {"iterable"}, 1);
  const Value items = to_list(in.heap(), given[0]);
  std::vector<Str> parts;
  in.heap().charge_memory(items.size() * sizeof(Str));
  for (const Value& item : items) {
    if (!item.is_string()) {
      fail("sequence item: expected str instance, " + std::string(type_name(item)) + " found");
    }
    const bool escape = self.is_markup() && !item.is_markup();
    parts.push_back(escape ? html_escape(in.heap(), item.as_str()) : item.as_str());
  }
  return with_kind_of(self, join(in.heap(), self.as_str(), parts));
}

// The window [start, end) that find, count, startswith and endswith look at.
struct Window {
  Str text;
  Int start = 0;      // in characters
  bool valid = true;  // false when start lies beyond the end of the text
};

Window window_of(Heap& heap, const Value& self, const Parameters& given) {
  Window window;
  window.text = self.as_str();
  if (!given.has(1) && !given.has(2)) return window;
  const Int length = static_cast<Int>(count_characters(heap, self.view()));
  const auto bound = [&](size_t i, Int otherwise) {
    if (!given.has(i) || given[i].is_none()) return otherwise;
    const Int at = given.integer(i, 0);
    return at < 0 ? std::max<Int>(at + length, 0) : at;
  };
  window.start = bound(1, 0);
  const Int end = std::min(bound(2, length), length);
  window.valid = window.start <= end;
  if (!window.valid) {
    window.text = Str{};
    return window;
  }
  window.text = characters(heap, window.text, static_cast<size_t>(window.start),
                           static_cast<size_t>(end - window.start));
  return window;
}

template <bool kAtEnd>
Value str_affix(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given(kAtEnd ? "endswith" : "startswith", arguments, {"affix", "start", "end"},
                         1);
  const Window window = window_of(in.heap(), self, given);
  const auto matches = [&window](const Value& affix) {
    if (!affix.is_string()) fail("startswith and endswith need a string or a tuple of strings");
    const std::string_view text = window.text.view();
    return window.valid && (kAtEnd ? text.ends_with(affix.view()) : text.starts_with(affix.view()));
  };
  if (!given[0].is(Kind::kTuple)) return Value::boolean(matches(given[0]));
  in.heap().charge_work(given[0].size() * sizeof(Value));
  return Value::boolean(std::any_of(given[0].begin(), given[0].end(), matches));
}

// Characters before the match, -1 when there is none.
Int find_in(Heap& heap, const Value& self, const Arguments& arguments, bool last) {
  const Parameters given("find", arguments, {"sub", "start", "end"}, 1);
  const Str wanted = given.string(0);
  const Window window = window_of(heap, self, given);
  if (!window.valid) return -1;
  const size_t found = last ? rfind_text(heap, window.text.view(), wanted.view())
                            : find_text(heap, window.text.view(), wanted.view());
  if (found == std::string_view::npos) return -1;
  return window.start +
         static_cast<Int>(count_characters(heap, window.text.view().substr(0, found)));
}

template <bool kLast, bool kMustExist>
Value str_find(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Int found = find_in(in.heap(), self, arguments, kLast);
  if (found < 0 && kMustExist) fail("substring not found");
  return Value::integer(found);
}

Value str_count(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("count", arguments, {"sub", "start", "end"}, 1);
  const Str wanted = given.string(0);
  const Window window = window_of(in.heap(), self, given);
  if (!window.valid) return Value::count(0);
  if (wanted.size == 0) return Value::count(count_characters(in.heap(), window.text.view()) + 1);
  size_t count = 0;
  size_t at = find_text(in.heap(), window.text.view(), wanted.view());
  while (at != std::string_view::npos) {
    ++count;
    at = find_text(in.heap(), window.text.view(), wanted.view(), at + wanted.size);
  }
  return Value::count(count);
}

template <bool kLast>
Value str_partition(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("partition", arguments, {"sep"}, 1);
  const Str separator = given.string(0);
  if (separator.size == 0) fail("empty separator");
  const Str text = self.as_str();
  const size_t found = kLast ? rfind_text(in.heap(), text.view(), separator.view())
                             : find_text(in.heap(), text.view(), separator.view());
  std::vector<Str> parts;
  if (found == std::string_view::npos) {
    parts = kLast ? std::vector<Str>{Str{}, Str{}, text} : std::vector<Str>{text, Str{}, Str{}};
  } else {
    const size_t after = found + separator.size;
    parts = {text.sub(0, found), text.sub(found, separator.size),
             text.sub(after, text.size - after)};
  }
  std::vector<Value> items;
  for (const Str& part : parts) items.push_back(with_kind_of(self, part));
  return Value::tuple(make_list(in.heap(), std::move(items)));
}

template <bool kSuffix>
Value str_remove_affix(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters given("removeprefix", arguments, {"affix"}, 1);
  const Str affix = given.string(0);
  const Str text = self.as_str();
  if (kSuffix && text.view().ends_with(affix.view())) {
    return with_kind_of(self, text.sub(0, text.size - affix.size));
  }
  if (!kSuffix && text.view().starts_with(affix.view())) {
    return with_kind_of(self, text.sub(affix.size, text.size - affix.size));
  }
  return self;
}

template <char kAlign>
Value str_pad(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("justify", arguments, {"width", "fillchar"}, 1);
  const Str fill = given.has(1) ? given.string(1) : make_str(in.heap(), " ", false);
  if (count_characters(in.heap(), fill.view()) != 1) {
    fail("The fill character must be exactly one character long");
  }
  return with_kind_of(self, pad(in.heap(), self.as_str(), given.integer(0, 0), fill, kAlign));
}

Value str_zfill(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("zfill", arguments, {"width"}, 1);
  const Str text = self.as_str();
  const bool sign = text.view().starts_with('-') || text.view().starts_with('+');
  const Str zero = make_str(in.heap(), "0", false);
  if (!sign) return with_kind_of(self, pad(in.heap(), text, given.integer(0, 0), zero, '>'));
  const Str digits = text.sub(1, text.size - 1);
  const Str padded = pad(in.heap(), digits, given.integer(0, 0) - 1, zero, '>');
  return with_kind_of(self, concat(in.heap(), text.sub(0, 1), padded));
}

Value str_expandtabs(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("expandtabs", arguments, {"tabsize"});
  const Int tab = given.integer(0, 8);
  StringBuilder out(in.heap());
  Int column = 0;
  for (const Value& item : to_list(in.heap(), self)) {
    const std::string_view c = item.view();
    if (c == "\t") {
      const Int spaces = tab > 0 ? tab - column % tab : 0;
      in.heap().check_string_size(static_cast<uint64_t>(std::min<Int>(spaces, Int{1} << 62)));
      for (Int i = 0; i < spaces; ++i) out.append_marked(" ", item.as_str().marks()[0]);
      column += spaces;
    } else {
      out.append(item.as_str());
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return with_kind_of(self, out.finish());
}

template <typename Test>
bool all_characters(Heap& heap, std::string_view text, Test test) {
  heap.charge_work(text.size());
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Char c = base::decode_utf8(text.substr(at));
    if (!test(c.code_point)) return false;
    at += c.length;
  }
  return true;
}

template <bool (*kTest)(char32_t), bool kEmptyIs>
Value str_is(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("character test", arguments, {});
  if (self.view().empty()) return Value::boolean(kEmptyIs);
  return Value::boolean(all_characters(in.heap(), self.view(), kTest));
}

bool is_ascii(char32_t c) { return c < 0x80; }

template <bool kUpperCase>
Value str_is_case(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("character test", arguments, {});
  return Value::boolean(has_case(in.heap(), self.view(), kUpperCase));
}

Value str_istitle(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("istitle", arguments, {});
  bool cased = false;
  bool previous_cased = false;
  const bool fits = all_characters(in.heap(), self.view(), [&](char32_t c) {
    const bool starts = is_upper(c) || is_title(c);
    if (starts ? previous_cased : is_lower(c) && !previous_cased) return false;
    previous_cased = starts || is_lower(c);
    cased = cased || previous_cased;
    return true;
  });
  return Value::boolean(fits && cased);
}

Value str_isidentifier(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("isidentifier", arguments, {});
  const std::string_view text = self.view();
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return Value::boolean(false);
  return Value::boolean(all_characters(
      in.heap(), text, [](char32_t c) { return c == '_' || is_alpha(c) || is_decimal(c); }));
}

Value str_format(Interpreter& in, const Value& self, const Arguments& arguments) {
  return brace_format(in, self, arguments);
}

Value unavailable(Interpreter&, const Value& self, const Arguments&) {
  fail("this method of '" + std::string(type_name(self)) + "' is not available in chat templates");
}

Value seq_count(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("count", arguments, {"value"}, 1);
  const Value items = to_list(in.heap(), self);
  in.heap().charge_work(items.size() * sizeof(Value));
  const auto same = [&](const Value& item) { return equal(in.heap(), item, given[0]); };
  return Value::count(static_cast<size_t>(std::count_if(items.begin(), items.end(), same)));
}

Value seq_index(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("index", arguments, {"value", "start", "stop"}, 1);
  const Value items = to_list(in.heap(), self);
  in.heap().charge_work(items.size() * sizeof(Value));
  const Int length = static_cast<Int>(items.size());
  const auto bound = [&](size_t i, Int otherwise) {
    const Int at = given.integer(i, otherwise);
    return std::min(at < 0 ? std::max<Int>(at + length, 0) : at, length);
  };
  for (Int i = bound(1, 0); i < bound(2, length); ++i) {
    if (equal(in.heap(), items.begin()[static_cast<size_t>(i)], given[0])) {
      return Value::integer(i);
    }
  }
  fail("value is not in the sequence");
}

Value list_copy(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters none("copy", arguments, {});
  return self;
}

template <ViewObject::What kWhat>
Value dict_view(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("dict view", arguments, {});
  ViewObject* view = in.heap().make<ViewObject>();
  view->dict = self.as_dict();
  view->what = kWhat;
  return Value::object(Kind::kView, view);
}

Value dict_get(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("dict.get() takes no keyword arguments");
  const Parameters given("dict.get", arguments, {"key", "default"}, 1);
  const Value* value = dict_find(in.heap(), *self.as_dict(), given[0]);
  return value != nullptr ? *value : given.get(1, Value::none());
}

Value dict_copy(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters none("copy", arguments, {});
  return self;
}

Value float_is_integer(Interpreter&, const Value& self, const Arguments& arguments) {
  const Parameters none("is_integer", arguments, {});
  const double number = self.as_double();
  return Value::boolean(
      number - number == 0.0 &&
      number == static_cast<double>(static_cast<Int>(std::clamp(number, -0x1p100, 0x1p100))));
}

constexpr std::array kStringMethods = {
    Method{"capitalize", str_transform<capitalize>},
    Method{"casefold", str_map<CaseMap::kFold>},
    Method{"center", str_pad<'^'>},
    Method{"count", str_count},
    Method{"encode", unavailable},
    Method{"endswith", str_affix<true>},
    Method{"expandtabs", str_expandtabs},
    Method{"find", str_find<false, false>},
    Method{"format", str_format},
    Method{"format_map", unavailable},
    Method{"index", str_find<false, true>},
    Method{"isalnum", str_is<is_alnum, false>},
    Method{"isalpha", str_is<is_alpha, false>},
    Method{"isascii", str_is<is_ascii, true>},
    Method{"isdecimal", str_is<is_decimal, false>},
    Method{"isdigit", str_is<is_digit, false>},
    Method{"isidentifier", str_isidentifier},
    Method{"islower", str_is_case<false>},
    Method{"isnumeric", str_is<is_numeric, false>},
    Method{"isprintable", str_is<is_printable, true>},
    Method{"isspace", str_is<is_space, false>},
    Method{"istitle", str_istitle},
    Method{"isupper", str_is_case<true>},
    Method{"join", str_join},
    Method{"ljust", str_pad<'<'>},
    Method{"lower", str_map<CaseMap::kLower>},
    Method{"lstrip", str_strip<Side::kLeft>},
    Method{"maketrans", unavailable},
    Method{"partition", str_partition<false>},
    Method{"removeprefix", str_remove_affix<false>},
    Method{"removesuffix", str_remove_affix<true>},
    Method{"replace", str_replace},
    Method{"rfind", str_find<true, false>},
    Method{"rindex", str_find<true, true>},
    Method{"rjust", str_pad<'>'>},
    Method{"rpartition", str_partition<true>},
    Method{"rsplit", str_split<rsplit>},
    Method{"rstrip", str_strip<Side::kRight>},
    Method{"split", str_split<split>},
    Method{"splitlines", str_splitlines},
    Method{"startswith", str_affix<false>},
    Method{"strip", str_strip<Side::kBoth>},
    Method{"swapcase", str_transform<swap_case>},
    Method{"title", str_transform<title>},
    Method{"translate", unavailable},
    Method{"upper", str_map<CaseMap::kUpper>},
    Method{"zfill", str_zfill},
};

constexpr std::array kListMethods = {
    Method{"append", nullptr},  Method{"clear", nullptr},  Method{"copy", list_copy},
    Method{"count", seq_count}, Method{"extend", nullptr}, Method{"index", seq_index},
    Method{"insert", nullptr},  Method{"pop", nullptr},    Method{"remove", nullptr},
    Method{"reverse", nullptr}, Method{"sort", nullptr},
};

constexpr std::array kTupleMethods = {Method{"count", seq_count}, Method{"index", seq_index}};

constexpr std::array kDictMethods = {
    Method{"clear", nullptr},
    Method{"copy", dict_copy},
    Method{"fromkeys", unavailable},
    Method{"get", dict_get},
    Method{"items", dict_view<ViewObject::What::kItems>},
    Method{"keys", dict_view<ViewObject::What::kKeys>},
    Method{"pop", nullptr},
    Method{"popitem", nullptr},
    Method{"setdefault", nullptr},
    Method{"update", nullptr},
    Method{"values", dict_view<ViewObject::What::kValues>},
};

constexpr std::array kFloatMethods = {Method{"is_integer", float_is_integer}};

template <size_t kSize>
const Method* find_in(const std::array<Method, kSize>& methods, std::string_view name) {
  const auto found = std::lower_bound(
      methods.begin(), methods.end(), name,
      [](const Method& method, std::string_view wanted) { return method.name < wanted; });
  return found != methods.end() && found->name == name ? &*found : nullptr;
}

const Method* find_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return find_in(kStringMethods, name);
    case Kind::kList:
      return find_in(kListMethods, name);
    case Kind::kTuple:
    case Kind::kRange:
      return find_in(kTupleMethods, name);
    case Kind::kDict:
      return find_in(kDictMethods, name);
    case Kind::kFloat:
      return find_in(kFloatMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace

bool find_attribute(Heap& heap, const Value& object, std::string_view name, Value& out) {
  const Method* method = find_method(object, name);
  if (method == nullptr) return false;
  if (method->function == nullptr) {
    out = Value::undefined(make_str(heap,
                                    "access to attribute '" + std::string(name) + "' of '" +
                                        std::string(type_name(object)) + "' object is unsafe.",
                                    false));
    return true;
  }
  FunctionObject* bound = heap.make<FunctionObject>();
  bound->name = method->name.data();
  bound->function = method->function;
  bound->self = object;
  out = Value::object(Kind::kFunction, bound);
  return true;
}

}  // namespace bulkhead::chat::jinja
