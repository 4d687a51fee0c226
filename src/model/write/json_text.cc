#include "model/write/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <vector>

#include "base/check.h"

namespace bulkhead::model::write {
namespace {

namespace json = boost::json;

constexpr size_t kShortList = 16;

bool fits_a_line(const json::array& list) {
  return list.size() <= kShortList && std::ranges::none_of(list, [](const json::value& value) {
           return value.is_structured() || value.is_string();
         });
}

void append(std::string& out, const json::value& value, size_t level);

void new_line(std::string& out, size_t level) {
  out += '\n';
  out.append(2 * level, ' ');
}

void append_object(std::string& out, const json::object& object, size_t level) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : object) {
    if (!first) out += ',';
    first = false;
    new_line(out, level + 1);
    out += json::serialize(json::string(key));
    out += ": ";
    append(out, value, level + 1);
  }
  if (!first) new_line(out, level);
  out += '}';
}

void append_array(std::string& out, const json::array& list, size_t level) {
  const bool line = fits_a_line(list);
  out += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += line ? ", " : ",";
    if (!line) new_line(out, level + 1);
    append(out, list[i], level + 1);
  }
  if (!line) new_line(out, level);
  out += ']';
}

// Depth is bounded: the parser takes no more than 32 levels.
void append(std::string& out, const json::value& value, size_t level) {
  if (value.is_object()) return append_object(out, value.get_object(), level);
  if (value.is_array()) return append_array(out, value.get_array(), level);
  // Its shortest digits in the form that other programs write: 1e-05, 10000.0.
  out += value.is_double() ? fmt::format("{}", value.get_double()) : json::serialize(value);
}

// Where a member stands in a document: from its name to the end of its value.
struct Member {
  std::string_view name;
  size_t begin = 0;
  size_t value = 0;
  size_t end = 0;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t skip_blanks(std::string_view text, size_t at) {
  while (is_blank(text[at])) ++at;
  return at;
}

// Behind the string that begins at `at`.
size_t skip_string(std::string_view text, size_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

size_t skip_value(std::string_view text, size_t at) {
  int depth = 0;
  for (;; ++at) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at) - 1;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth > 0 && (c == '}' || c == ']')) {
      --depth;
    } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
      while (is_blank(text[at - 1])) --at;
      return at;
    }
  }
}

// The members of the object whose brace is at `at`.
std::vector<Member> members_of(std::string_view text, size_t at) {
  std::vector<Member> out;
  at = skip_blanks(text, at + 1);
  while (text[at] != '}') {
    Member member;
    member.begin = at;
    at = skip_string(text, at);
    member.name = text.substr(member.begin + 1, at - member.begin - 2);
    member.value = skip_blanks(text, skip_blanks(text, at) + 1);
    member.end = skip_value(text, member.value);
    out.push_back(member);
    at = skip_blanks(text, member.end);
    if (text[at] == ',') at = skip_blanks(text, at + 1);
  }
  return out;
}

// The brace of the object that is meant.
std::optional<size_t> object_of(std::string_view text, std::string_view inside) {
  const size_t root = text.find('{');
  if (inside.empty()) return root;
  for (const Member& member : members_of(text, root)) {
    if (member.name == inside && text[member.value] == '{') return member.value;
  }
  return std::nullopt;
}

}  // namespace

std::string json_text(const json::value& value) {
  std::string out;
  append(out, value, 0);
  return out + "\n";
}

std::string without_member(std::string document, std::string_view inside, std::string_view name) {
  const std::optional<size_t> object = object_of(document, inside);
  if (!object) return document;
  const std::vector<Member> members = members_of(document, *object);
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].name != name) continue;
    const bool last = i + 1 == members.size();
    const size_t begin = last && i > 0 ? members[i - 1].end : members[i].begin;
    const size_t end = last ? members[i].end : members[i + 1].begin;
    return document.erase(begin, end - begin);
  }
  return document;
}

std::string with_member(std::string document, std::string_view inside, std::string_view name,
                        const json::value& value) {
  const std::optional<size_t> object = object_of(document, inside);
  BH_CHECK(object.has_value(), "a member for an object that is not there");
  const std::vector<Member> members = members_of(document, *object);
  const size_t level = inside.empty() ? 1 : 2;
  std::string text = members.empty() ? "" : ",";
  new_line(text, level);
  text += fmt::format("\"{}\": ", name);
  append(text, value, level);
  if (members.empty()) new_line(text, level - 1);
  return document.insert(members.empty() ? *object + 1 : members.back().end, text);
}

}  // namespace bulkhead::model::write
