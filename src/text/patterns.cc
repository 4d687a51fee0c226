#include "text/patterns.h"

#include <string>

#include "text/unicode.h"

namespace bulkhead::text {
namespace {

constexpr KindSet kWords = kLetters | kMarks;
constexpr KindSet kSigns = set_of(kPunctuation) | set_of(kSymbol);
// o200k's two letter classes overlap in everything that has no case.
constexpr KindSet kCaseless = set_of(kModifierLetter) | set_of(kOtherLetter) | kMarks;
constexpr KindSet kHeads = set_of(kUpper) | set_of(kTitle) | kCaseless;
constexpr KindSet kTails = set_of(kLower) | kCaseless;

bool is_newline(const Char& c) { return c.code_point == '\r' || c.code_point == '\n'; }
bool is_newline(char c) { return c == '\r' || c == '\n'; }

// [^\s\p{L}\p{N}], with `words` in place of \p{L}.
bool is_sign(const Char& c, KindSet words) {
  return !c.is_space() && !c.in(static_cast<KindSet>(words | kNumbers));
}

size_t skip(std::string_view text, size_t at, KindSet kinds) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (!c.in(kinds)) break;
    at += c.length;
  }
  return at;
}

bool kind_at(std::string_view text, size_t at, KindSet kinds) {
  return at < text.size() && char_at(text, at).in(kinds);
}

// \s+(?!\S)|\s+ : a run of white space leaves its last character to the word that follows.
size_t match_space(std::string_view text, size_t at) {
  size_t end = at;
  size_t last = at;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (!c.is_space()) break;
    last = end;
    end += c.length;
  }
  return end == text.size() || last == at ? end : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : a run that holds a line break ends behind the last one.
size_t match_space_or_lines(std::string_view text, size_t at) {
  size_t end = at;
  size_t after_break = at;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (!c.is_space()) break;
    end += c.length;
    if (is_newline(c)) after_break = end;
  }
  return after_break != at ? after_break : match_space(text, at);
}

// 's|'t|'re|'ve|'m|'ll|'d
size_t match_contraction(std::string_view text, size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (at + 2 >= text.size()) return at;
  const std::string_view two = text.substr(at + 1, 2);
  return two == "re" || two == "ve" || two == "ll" ? at + 3 : at;
}

char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The same in any case: (?i:'s|'t|'re|'ve|'m|'ll|'d). U+017F, the long s, folds to s.
size_t match_contraction_any_case(std::string_view text, size_t at) {
  if (at >= text.size() || text[at] != '\'') return at;
  if (text.substr(at + 1, 2) == "\u017F") return at + 3;
  const char letters[] = {'\'', at + 1 < text.size() ? lowered(text[at + 1]) : '\0',
                          at + 2 < text.size() ? lowered(text[at + 2]) : '\0'};
  return at + match_contraction({letters, sizeof letters}, 0);
}

// \p{N}{1,limit}
size_t match_numbers(std::string_view text, size_t at, int limit) {
  for (int count = 0; count < limit && kind_at(text, at, kNumbers); ++count) {
    at += char_at(text, at).length;
  }
  return at;
}

//  ?[^\s\p{L}\p{N}]+[\r\n]* with `words` for \p{L}; `slash` adds / to the tail's class.
size_t match_signs(std::string_view text, size_t at, KindSet words, bool slash) {
  const size_t start = text[at] == ' ' ? at + 1 : at;
  size_t end = start;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (!is_sign(c, words)) break;
    end += c.length;
  }
  if (end == start) return at;
  while (end < text.size() && (is_newline(text[end]) || (slash && text[end] == '/'))) ++end;
  return end;
}

// (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
// \s+(?!\S)|\s+ with `words` for the second and the fourth \p{L}: the family of cl100k.
size_t match_cl100k(std::string_view text, size_t at, int digits, KindSet words) {
  if (const size_t end = match_contraction_any_case(text, at); end != at) return end;
  const Char c = char_at(text, at);
  const bool may_lead = !is_newline(c) && !c.in(kLetters | kNumbers);
  if (may_lead && kind_at(text, at + c.length, words)) return skip(text, at + c.length, words);
  if (c.in(words)) return skip(text, at, words);
  if (c.in(kNumbers)) return match_numbers(text, at, digits);
  if (const size_t end = match_signs(text, at, words, false); end != at) return end;
  return match_space_or_lines(text, at);
}

size_t match_qwen35(std::string_view text, size_t at) { return match_cl100k(text, at, 1, kWords); }

enum class Han { kAsLetters, kApart };

// End of the run of `kinds` that starts at `at`, without Chinese characters where they stand apart.
template <Han han>
size_t skip_cased(std::string_view text, size_t at, KindSet kinds) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (!c.in(kinds) || (han == Han::kApart && is_han(c))) break;
    at += c.length;
  }
  return at;
}

// [heads]*[tails]+
template <Han han>
size_t match_ends_low(std::string_view text, size_t at) {
  size_t end = at;
  size_t after_caseless = at;  // where the last character in both classes ends
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (!c.in(kHeads) || (han == Han::kApart && is_han(c))) break;
    end += c.length;
    if (c.in(kCaseless)) after_caseless = end;
  }
  const size_t tail = skip_cased<han>(text, end, kTails);
  return tail != end ? tail : after_caseless;
}

// [heads]+[tails]*
template <Han han>
size_t match_starts_high(std::string_view text, size_t at) {
  const size_t end = skip_cased<han>(text, at, kHeads);
  return end == at ? at : skip_cased<han>(text, end, kTails);
}

// [^\r\n\p{L}\p{N}]? in front of either form; a form fits with the extra character first.
template <Han han>
size_t match_cased_word(std::string_view text, size_t at) {
  const Char c = char_at(text, at);
  const size_t next = at + c.length;
  const bool may_lead = !is_newline(c) && !c.in(kLetters | kNumbers);
  for (const auto form : {match_ends_low<han>, match_starts_high<han>}) {
    if (may_lead && next < text.size()) {
      if (const size_t end = form(text, next); end != next) return end;
    }
    if (const size_t end = form(text, at); end != at) return end;
  }
  return at;
}

// [\p{Han}]+
size_t match_han(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (!is_han(c)) break;
    at += c.length;
  }
  return at;
}

size_t match_digits3(std::string_view text, size_t at) { return match_numbers(text, at, 3); }

bool is_ascii_letter(char c) { return lowered(c) >= 'a' && lowered(c) <= 'z'; }

// DeepSeek-V3's last split; what it leaves out (numbers, controls) stays together.
size_t match_deepseek_v3(std::string_view text, size_t at) {
  const Char c = char_at(text, at);
  size_t end = at + c.length;
  if (c.code_point < 0x80 && c.in(kSigns) && end < text.size() && is_ascii_letter(text[end])) {
    while (end < text.size() && is_ascii_letter(text[end])) ++end;
    return end;
  }
  const bool may_lead = !is_newline(c) && !c.in(kLetters | kSigns);
  if (may_lead && kind_at(text, end, kWords)) return skip(text, end, kWords);
  if (c.in(kWords)) return skip(text, at, kWords);
  const size_t signs = text[at] == ' ' ? at + 1 : at;
  end = skip(text, signs, kSigns);
  if (end != signs) {
    while (end < text.size() && is_newline(text[end])) ++end;
    return end;
  }
  return c.is_space() ? match_space_or_lines(text, at) : at;
}

struct KnownPattern {
  std::string_view regex;
  Matcher matcher;
};

constexpr KnownPattern kKnownPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", match_gpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", match_gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_qwen2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_qwen35},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_o200k},
    {R"(\p{N}{1,3})", match_digits3},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
     R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_deepseek_v3},
};

std::string with_escaped_breaks(std::string_view regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

size_t match_gpt2(std::string_view text, size_t at) {
  if (const size_t end = match_contraction(text, at); end != at) return end;
  const size_t start = text[at] == ' ' ? at + 1 : at;
  if (start < text.size()) {
    const Char c = char_at(text, start);
    if (c.in(kLetters)) return skip(text, start, kLetters);
    if (c.in(kNumbers)) return skip(text, start, kNumbers);
    if (!c.is_space()) {
      size_t end = start + c.length;
      while (end < text.size() && is_sign(char_at(text, end), kLetters)) {
        end += char_at(text, end).length;
      }
      return end;
    }
  }
  return match_space(text, at);
}

size_t match_llama3(std::string_view text, size_t at) {
  return match_cl100k(text, at, 3, kLetters);
}

size_t match_qwen2(std::string_view text, size_t at) { return match_cl100k(text, at, 1, kLetters); }

size_t match_o200k(std::string_view text, size_t at) {
  if (const size_t end = match_cased_word<Han::kAsLetters>(text, at); end != at) {
    return match_contraction_any_case(text, end);
  }
  if (kind_at(text, at, kNumbers)) return match_numbers(text, at, 3);
  if (const size_t end = match_signs(text, at, kLetters, true); end != at) return end;
  return match_space_or_lines(text, at);
}

size_t match_kimi(std::string_view text, size_t at) {
  if (const size_t end = match_han(text, at); end != at) return end;
  if (const size_t end = match_cased_word<Han::kApart>(text, at); end != at) {
    return match_contraction_any_case(text, end);
  }
  if (kind_at(text, at, kNumbers)) return match_numbers(text, at, 3);
  if (const size_t end = match_signs(text, at, kLetters, false); end != at) return end;
  return match_space_or_lines(text, at);
}

std::string_view regex_of(Matcher matcher) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.matcher == matcher) return known.regex;
  }
  return "";
}

Matcher find_pattern(std::string_view regex) {
  const std::string wanted = with_escaped_breaks(regex);
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.regex == wanted) return known.matcher;
  }
  return nullptr;
}

bool matches_everything(std::string_view regex) {
  const Matcher matcher = find_pattern(regex);
  return matcher != nullptr && matcher != match_digits3 && matcher != match_deepseek_v3;
}

}  // namespace bulkhead::text
