#include "constraint/schema/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace bulkhead::constraint {
namespace {

constexpr int64_t kProgramBytesMax = 1 << 20;

// The count that `text` begins with as "{4}", "{2,}" or "{2,7}": the greatest number in it, and its
// length; length 0 when the brace is no count that every engine reads alike. With a leading zero or
// without a first number some take it for a count and some for the characters.
struct Count {
  int64_t most = 1;
  size_t length = 0;
};

// The number that `text` begins with, taken off it.
std::optional<int64_t> take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  text.remove_prefix(digits.size());
  return error == std::errc() ? number : kPatternRepeatMax + 1;
}

Count read_count(std::string_view text) {
  std::string_view rest = text.substr(1);
  const std::optional<int64_t> least = take_number(rest);
  if (!least) return {};
  Count count{.most = std::max<int64_t>(1, *least)};
  if (rest.starts_with(',')) {
    rest.remove_prefix(1);
    if (!rest.starts_with('}')) {
      const std::optional<int64_t> most = take_number(rest);
      if (!most) return {};
      count.most = std::max(count.most, *most);
    }
  }
  if (!rest.starts_with('}')) return {};
  count.length = text.size() - rest.size() + 1;
  return count;
}

// Follows groups and counts through a pattern.
class LimitScan {
 public:
  explicit LimitScan(std::string_view text) : text_(text) { groups_.push_back({}); }

  base::Result<int64_t> run() {
    for (size_t i = 0; i < text_.size(); ++i) {
      BH_TRY(step(i));
      if (groups_.back().cost > kPatternCostMax) {
        return base::invalid_argument(
            {}, fmt::format("the pattern has more than {} parts, with its repeats multiplied out",
                            kPatternCostMax));
      }
    }
    if (groups_.size() > 1) {
      return base::invalid_argument({}, "a group in the pattern is not closed");
    }
    return groups_.back().cost;
  }

 private:
  struct Group {
    int64_t cost = 0;  // of what it holds, with its counts multiplied out
    int64_t last = 0;  // of the element a count would repeat
  };

  base::Status step(size_t& i) {
    const char c = text_[i];
    if (c == '\\') {
      ++i;
      // \p{Letter}, \u{1F600}: the brace belongs to the escape.
      const std::string_view rest = text_.substr(std::min(i, text_.size()));
      if (rest.size() > 1 && rest[1] == '{' && std::isalpha(static_cast<unsigned char>(rest[0]))) {
        i = std::min(text_.find('}', i), text_.size());
      }
      element(1);
    } else if (in_class_) {
      in_class_ = c != ']';
    } else if (c == '[') {
      in_class_ = true;
      element(1);
      // "[]" and "[^]" are classes in ECMA 262.
    } else if (c == '(') {
      if (groups_.size() > static_cast<size_t>(kPatternDepthMax)) {
        return base::invalid_argument(
            {}, fmt::format("the pattern nests groups deeper than {} levels", kPatternDepthMax));
      }
      groups_.push_back({});
    } else if (c == ')') {
      if (groups_.size() == 1) return base::invalid_argument({}, "the pattern closes no group");
      const int64_t cost = std::max<int64_t>(groups_.back().cost, 1);
      groups_.pop_back();
      element(cost);
    } else if (c == '{') {
      const Count count = read_count(text_.substr(i));
      if (count.length == 0) {
        return base::invalid_argument({},
                                      "a brace in the pattern is not a count like {2,7}; write \\{ "
                                      "for the character");
      }
      i += count.length - 1;
      return repeat(count.most);
    } else {
      element(1);
    }
    return {};
  }

  void element(int64_t cost) {
    groups_.back().cost += cost;
    groups_.back().last = cost;
  }

  base::Status repeat(int64_t most) {
    Group& group = groups_.back();
    if (most > kPatternRepeatMax) {
      return base::invalid_argument(
          {}, fmt::format("the pattern repeats a part more than {} times", kPatternRepeatMax));
    }
    group.cost += group.last * (most - 1);
    group.last *= most;
    return {};
  }

  const std::string_view text_;
  std::vector<Group> groups_;
  bool in_class_ = false;
};

bool is_hex(std::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

// White space as ECMA 262 counts it, and everything else, as parts of a class; RE2 knows the ASCII
// part only.
constexpr const char* kSpaces =
    R"(\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff})";
constexpr const char* kNoSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff})";
// What "." does not stand for.
constexpr const char* kNoLineEnd = R"([^\n\r\x{2028}\x{2029}])";

// One escape of ECMA 262, after the backslash at text[i], in RE2's spelling; moves `i` to its last
// character.
std::string translate_escape(std::string_view text, size_t& i, bool in_class) {
  const char c = text[++i];
  if (c == 's' || c == 'S') {
    const std::string members = c == 's' ? kSpaces : kNoSpaces;
    return in_class ? members : "[" + members + "]";
  }
  if (c == 'u' && i + 4 < text.size() && is_hex(text.substr(i + 1, 4))) {
    const std::string digits(text.substr(i + 1, 4));
    i += 4;
    return "\\x{" + digits + "}";
  }
  if (c == 'c' && i + 1 < text.size()) {
    const int control = static_cast<unsigned char>(text[++i]) % 32;
    return fmt::format("\\x{{{:02x}}}", control);
  }
  // RE2 knows these as something else, or not at all.
  if (c == '/' || c == '-' || c == ' ' || c == '"' || c == '\'' || c == '@' || c == '#') {
    return std::string("\\x{") + fmt::format("{:02x}", static_cast<unsigned char>(c)) + "}";
  }
  return std::string("\\") + c;
}

// ECMA 262's spelling in RE2's. Within a class "[" is an ordinary character.
std::string translate(std::string_view text) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      out += translate_escape(text, i, in_class);
    } else if (!in_class && text.substr(i, 3) == "[^]") {
      out += "(?s:.)";
      i += 2;
    } else if (!in_class && c == '.') {
      out += kNoLineEnd;
    } else if (in_class && c == '[') {
      out += "\\[";
    } else {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
    }
  }
  return out;
}

// What would mean something else to RE2, or nothing.
const char* unsupported_part(std::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\\') {
      const char next = text[++i];
      if (next >= '1' && next <= '9') return "back-references";
      if (next == 'k') return "named back-references";
      if (next == 'A' || next == 'z' || next == 'Z' || next == 'Q' || next == 'E' || next == 'C' ||
          next == 'a') {
        return "escapes that ECMA 262 does not have";
      }
      continue;
    }
    const std::string_view rest = text.substr(i);
    for (const std::string_view look : {"(?=", "(?!", "(?<=", "(?<!"}) {
      if (rest.substr(0, look.size()) == look) return "look-around";
    }
    if (rest.substr(0, 2) == "(?" && rest.substr(0, 3) != "(?:" && rest.substr(0, 3) != "(?<") {
      return "inline flags";
    }
  }
  return nullptr;
}

// "(?<name>" is "(?P<name>" in RE2.
std::string rename_groups(std::string text) {
  for (size_t at = text.find("(?<"); at != std::string::npos; at = text.find("(?<", at + 4)) {
    text.insert(at + 2, "P");
  }
  return text;
}

}  // namespace

base::Result<int64_t> pattern_cost(std::string_view text) {
  if (text.size() > kPatternBytesMax) {
    return base::invalid_argument({}, fmt::format("the pattern has {} bytes; the limit is {}",
                                                  text.size(), kPatternBytesMax));
  }
  return LimitScan(text).run();
}

std::optional<std::string> pattern_with_length(std::string_view text, int64_t least, int64_t most) {
  static const re2::RE2 kOneClass(
      R"(\^(\[\^?(?:[^\]\\[]|\\[\\dwsDWS.^$\[\]-])+\]|\\[dws]|[A-Za-z0-9])([*+])\$)");
  std::string element;
  std::string count;
  const re2::StringPiece whole(text.data(), text.size());
  if (!re2::RE2::FullMatch(whole, kOneClass, &element, &count)) return std::nullopt;
  if (count == "+") least = std::max<int64_t>(least, 1);
  if (most >= 0 && (most < least || most > kPatternRepeatMax)) return std::nullopt;
  if (least > kPatternRepeatMax) return std::nullopt;
  if (most < 0) return fmt::format("^{}{{{},}}$", element, least);
  return fmt::format("^{}{{{},{}}}$", element, least, most);
}

base::Result<Pattern> Pattern::compile(std::string_view text) {
  BH_TRY(pattern_cost(text));
  if (const char* part = unsupported_part(text)) {
    return base::unsupported(fmt::format("the pattern uses {}, which are not supported", part));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kProgramBytesMax);
  auto program = std::make_unique<re2::RE2>(rename_groups(translate(text)), options);
  if (!program->ok()) {
    return base::invalid_argument(
        {}, fmt::format("the pattern is no regular expression: {}", program->error()));
  }
  return Pattern(std::move(program));
}

Pattern::Pattern(std::unique_ptr<re2::RE2> program) : program_(std::move(program)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

bool Pattern::found_in(std::string_view text) const {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *program_);
}

}  // namespace bulkhead::constraint
