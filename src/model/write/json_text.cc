#include "model/write/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  std::string name;
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

// What the string with its quotes stands for: a name may be written with escapes.
std::string unescaped(std::string_view quoted) {
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return std::string(inside);
  json::error_code error;
  const json::value value = json::parse(quoted, error);
  return value.is_string() ? std::string(value.get_string()) : std::string(inside);
}

// The members of the object whose brace is at `at`.
std::vector<Member> members_of(std::string_view text, size_t at) {
  std::vector<Member> out;
  at = skip_blanks(text, at + 1);
  while (text[at] != '}') {
    Member member;
    member.begin = at;
    at = skip_string(text, at);
    member.name = unescaped(text.substr(member.begin, at - member.begin));
    member.value = skip_blanks(text, skip_blanks(text, at) + 1);
    member.end = skip_value(text, member.value);
    const size_t end = member.end;
    out.push_back(std::move(member));
    at = skip_blanks(text, end);
    if (text[at] == ',') at = skip_blanks(text, at + 1);
  }
  return out;
}

// The brace of the object that is meant. Of members of one name the last one counts, as it does to
// those who read the document.
std::optional<size_t> object_of(std::string_view text, std::string_view inside) {
  const size_t root = text.find('{');
  if (inside.empty()) return root;
  std::optional<size_t> object;
  for (const Member& member : members_of(text, root)) {
    if (member.name != inside) continue;
    object = text[member.value] == '{' ? std::optional(member.value) : std::nullopt;
  }
  return object;
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
  if (std::ranges::find(members, name, &Member::name) == members.end()) return document;
  const std::string_view text = document;
  std::string out(text.substr(0, members.front().begin));
  const Member* kept = nullptr;
  for (const Member& member : members) {
    if (member.name == name) continue;
    // Between two that stay, what stood behind the first of them.
    if (kept != nullptr) out += text.substr(kept->end, (kept + 1)->begin - kept->end);
    out += text.substr(member.begin, member.end - member.begin);
    kept = &member;
  }
  return out += text.substr(members.back().end);
}

base::Result<std::string> with_member(std::string document, std::string_view inside,
                                      std::string_view name, const json::value& value) {
  const std::optional<size_t> object = object_of(document, inside);
  if (!object) {
    return base::corrupt(fmt::format("\"{}\" is no object, but is to hold \"{}\"", inside, name));
  }
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
