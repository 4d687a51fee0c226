// Filters over text.
#include "base/utf8.h"
#include "chat/jinja/library/filter_functions.h"
#include "chat/jinja/library/parameters.h"
#include "chat/jinja/library/printf_format.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja::filters {
namespace {

// soft_str: a markup string stays one.
Value soft(Interpreter& in, const Value& self) {
  return self.is_string() ? self : Value::string(to_str(in.heap(), self));
}

Value remade(const Value& from, const Str& text) { return Value::string(text, from.is_markup()); }

}  // namespace

Value capitalize_text(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("capitalize", arguments, {});
  const Value text = soft(in, self);
  return remade(text, capitalize(in.heap(), text.as_str()));
}

Value center(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("center", arguments, {"width"});
  const Value text = soft(in, self);
  return remade(text, pad(in.heap(), text.as_str(), given.integer(0, 80),
                          make_str(in.heap(), " ", false), '^'));
}

Value escape(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("escape", arguments, {});
  if (self.is_markup()) return self;
  return Value::string(html_escape(in.heap(), to_str(in.heap(), self)), true);
}

Value force_escape(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("forceescape", arguments, {});
  return Value::string(html_escape(in.heap(), to_str(in.heap(), self)), true);
}

Value format(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = soft(in, self);
  if (arguments.named.empty()) {
    return printf_format(in.heap(), text, Value::tuple(make_list(in.heap(), arguments.positional)));
  }
  DictObject* named = in.heap().make<DictObject>();
  for (const auto& [name, value] : arguments.named) {
    dict_set(in.heap(), *named, Value::string(name), value);
  }
  return printf_format(in.heap(), text, Value::dict(named));
}

Value indent(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("indent", arguments, {"width", "first", "blank"});
  Heap& heap = in.heap();
  if (!self.is_string()) fail("indent needs a string, not " + std::string(type_name(self)));
  Str indention;
  if (given.has(0) && given[0].is_string()) {
    indention = given.string(0);
  } else {
    indention = pad(heap, Str{}, given.integer(0, 4), make_str(heap, " ", false), '<');
  }
  const bool blank = given.flag(2, false, heap);
  const Str newline = make_str(heap, "\n", false);
  const std::vector<Str> lines = split_lines(heap, concat(heap, self.as_str(), newline), false);
  StringBuilder out(heap);
  if (given.flag(1, false, heap)) out.append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append(newline);
      if (blank || lines[i].size > 0) out.append(indention);
    }
    out.append(lines[i]);
  }
  return remade(self, out.finish());
}

Value lower(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("lower", arguments, {});
  const Value text = soft(in, self);
  return remade(text, map_case(in.heap(), text.as_str(), CaseMap::kLower));
}

Value upper(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("upper", arguments, {});
  const Value text = soft(in, self);
  return remade(text, map_case(in.heap(), text.as_str(), CaseMap::kUpper));
}

Value replace_text(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
  Heap& heap = in.heap();
  const Int count = given.has(2) && given[2].is_none() ? -1 : given.integer(2, -1);
  return Value::string(
      replace(heap, to_str(heap, self), to_str(heap, given[0]), to_str(heap, given[1]), count));
}

Value safe(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("safe", arguments, {});
  return Value::string(to_str(in.heap(), self), true);
}

Value string(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("string", arguments, {});
  return soft(in, self);
}

// markupsafe's striptags: comments and tags go, entities are decoded, space is collapsed.
Value strip_tags(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("striptags", arguments, {});
  Heap& heap = in.heap();
  Str text = to_str(heap, self);
  for (const auto& [open, close] : {std::pair{"<!--", "-->"}, std::pair{"<", ">"}}) {
    const std::string_view begin(open);
    const std::string_view end(close);
    StringBuilder out(heap);
    size_t at = 0;
    while (true) {
      const size_t start = find_text(heap, text.view(), begin, at);
      if (start == std::string_view::npos) break;
      const size_t stop = find_text(heap, text.view(), end, start);
      if (stop == std::string_view::npos) break;
      out.append(text.sub(at, start - at));
      at = stop + end.size();
    }
    out.append(text.sub(at, text.size - at));
    text = out.finish();
  }
  text = join(heap, make_str(heap, " ", false), split(heap, text, nullptr, -1));
  if (text.view().find('&') != std::string_view::npos) {
    fail("striptags: character entities are not available in chat templates");
  }
  return Value::string(text);
}

// jinja2's own title: words start after whitespace, '-' or an opening bracket.
Value title_text(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("title", arguments, {});
  Heap& heap = in.heap();
  const Value text = soft(in, self);
  const Str str = text.as_str();
  const auto separates = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  StringBuilder out(heap);
  for (size_t at = 0; at < str.size;) {
    size_t end = at;
    size_t first = 0;  // bytes of the word's first character
    while (end < str.size) {
      const base::Utf8Char c = base::decode_utf8(str.view().substr(end));
      if (separates(c.code_point)) break;
      if (end == at) first = c.length;
      end += c.length;
    }
    if (end > at) {
      out.append(map_case(heap, str.sub(at, first), CaseMap::kUpper));
      out.append(map_case(heap, str.sub(at + first, end - at - first), CaseMap::kLower));
    }
    at = end;
    if (at < str.size) {
      const size_t length = base::decode_utf8(str.view().substr(at)).length;
      out.append(str.sub(at, length));
      at += length;
    }
  }
  return Value::string(out.finish());
}

Value trim(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("trim", arguments, {"chars"});
  const Value text = soft(in, self);
  if (!given.has(0) || given[0].is_none()) {
    return remade(text, strip(in.heap(), text.as_str(), nullptr, Side::kBoth));
  }
  const Str set = given.string(0);
  return remade(text, strip(in.heap(), text.as_str(), &set, Side::kBoth));
}

Value truncate(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters given("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Heap& heap = in.heap();
  const Str end = given.has(2) ? given.string(2) : make_str(heap, "...", false);
  const Int length = given.integer(0, 255);
  const Int end_length = static_cast<Int>(count_characters(heap, end.view()));
  const Int leeway = given.has(3) && given[3].is_none() ? 5 : given.integer(3, 5);
  if (length < end_length) fail("truncate: length is shorter than the end text");
  if (leeway < 0) fail("truncate: leeway is negative");
  const Int size = filters::length(in, self, {}).as_int();
  if (size <= length || size - length <= leeway) return self;
  if (!self.is_string()) fail("truncate needs a string, not " + std::string(type_name(self)));
  const Str text = self.as_str();
  Str kept = characters(heap, text, 0, static_cast<size_t>(length - end_length));
  if (!given.flag(1, false, heap)) {
    const size_t space = rfind_text(heap, kept.view(), " ");
    if (space != std::string_view::npos) kept = kept.sub(0, space);
  }
  return remade(self, concat(heap, kept, end));
}

namespace {

void append_quoted(Heap& heap, StringBuilder& out, const Value& value, bool for_query) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  const Str text = to_str(heap, value);
  for (size_t i = 0; i < text.size; ++i) {
    const char c = text.view()[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out.append(text.sub(i, 1));
    } else if (c == ' ' && for_query) {
      out.append("+");
    } else {
      const char escape[] = {'%', kHex[byte >> 4], kHex[byte & 15u]};
      out.append(std::string_view(escape, 3));
    }
  }
}

}  // namespace

Value url_encode(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("urlencode", arguments, {});
  Heap& heap = in.heap();
  StringBuilder out(heap);
  if (self.is_string() || !is_iterable(self)) {
    append_quoted(heap, out, self, false);
    return Value::string(out.finish());
  }
  Value pairs = self;
  if (self.is(Kind::kDict)) pairs = items(in, self, {});
  bool first_pair = true;
  for (const Value& pair : to_list(heap, pairs)) {
    const Value both = to_list(heap, pair);
    if (both.size() != 2) fail("urlencode needs pairs");
    if (!first_pair) out.append("&");
    first_pair = false;
    append_quoted(heap, out, both.begin()[0], true);
    out.append("=");
    append_quoted(heap, out, both.begin()[1], true);
  }
  return Value::string(out.finish());
}

Value word_count(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters none("wordcount", arguments, {});
  const Str text = to_str(in.heap(), self);
  in.heap().charge_work(text.size);
  size_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size;) {
    const base::Utf8Char c = base::decode_utf8(text.view().substr(at));
    at += c.length;
    const bool word = c.code_point == '_' || is_alnum(c.code_point);
    if (word && !in_word) ++words;
    in_word = word;
  }
  return Value::count(words);
}

}  // namespace bulkhead::chat::jinja::filters
