#include "text/class_run.h"

#include "base/utf8.h"

namespace bulkhead::text {
namespace {

constexpr std::string_view kPlainEscapes = R"(\/.-[](){}?*+|^$'")";
constexpr std::string_view kOperators = R"(()|?*+{}[].^$\)";

KindSet kinds_of(std::string_view name) {
  constexpr std::pair<std::string_view, KindSet> kNames[] = {
      {"L", kLetters},
      {"Lu", set_of(kUpper)},
      {"Ll", set_of(kLower)},
      {"Lt", set_of(kTitle)},
      {"Lm", set_of(kModifierLetter)},
      {"Lo", set_of(kOtherLetter)},
      {"M", kMarks},
      {"N", kNumbers},
      {"P", set_of(kPunctuation)},
      {"S", set_of(kSymbol)},
      {"Z", set_of(kSeparator)},
  };
  for (const auto& [known, kinds] : kNames) {
    if (known == name) return kinds;
  }
  return 0;
}

// Reads one regular expression from left to right; any `false` means "not of this form".
class Reader {
 public:
  explicit Reader(std::string_view regex) : rest_(regex) {}

  bool done() const { return rest_.empty(); }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // A class in brackets, an escape, or a plain character.
  bool char_class(CharClass& out) {
    if (take('[')) return bracketed(out);
    if (!rest_.empty() && rest_.front() != '\\' &&
        kOperators.find(rest_.front()) != kOperators.npos)
      return false;
    return member(out);
  }

  // + or {n} or {n,m}; nothing leaves both at 1.
  bool repeat(uint32_t& least, uint32_t& most, uint32_t unlimited) {
    if (take('+')) {
      most = unlimited;
      return true;
    }
    if (!take('{')) return true;
    if (!number(least)) return false;
    most = least;
    if (take(',') && !number(most)) return false;
    return take('}') && least >= 1 && least <= most;
  }

 private:
  bool bracketed(CharClass& out) {
    out.negated = take('^');
    while (!take(']')) {
      if (rest_.empty() || rest_.front() == '[' || rest_.starts_with("&&")) return false;
      if (!member(out)) return false;
    }
    return out.kinds != 0 || out.space || !out.ranges.empty();
  }

  // One escape, character or range added to `out`.
  bool member(CharClass& out) {
    if (rest_.starts_with("\\p{")) return property(out);
    if (rest_.starts_with("\\s")) {
      rest_.remove_prefix(2);
      out.space = true;
      return true;
    }
    char32_t first = 0;
    if (!character(first)) return false;
    char32_t last = first;
    if (rest_.size() > 1 && rest_.front() == '-' && rest_[1] != ']') {
      rest_.remove_prefix(1);
      if (!character(last) || last < first) return false;
    }
    out.ranges.emplace_back(first, last);
    return true;
  }

  bool property(CharClass& out) {
    const size_t close = rest_.find('}');
    if (close == std::string_view::npos) return false;
    const KindSet kinds = kinds_of(rest_.substr(3, close - 3));
    rest_.remove_prefix(close + 1);
    out.kinds = static_cast<KindSet>(out.kinds | kinds);
    return kinds != 0;
  }

  bool character(char32_t& out) {
    if (rest_.empty()) return false;
    if (take('\\')) return escape(out);
    const base::Utf8Char c = base::decode_utf8(rest_);
    if (!c.valid) return false;
    out = c.code_point;
    rest_.remove_prefix(c.length);
    return true;
  }

  bool escape(char32_t& out) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == 'n') out = '\n';
    if (c == 'r') out = '\r';
    if (c == 't') out = '\t';
    if (kPlainEscapes.find(c) != kPlainEscapes.npos) out = static_cast<unsigned char>(c);
    return out != 0;
  }

  bool number(uint32_t& out) {
    constexpr uint32_t kMost = 16;  // keeps a failed attempt short
    out = 0;
    bool any = false;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      out = out * 10 + static_cast<uint32_t>(rest_.front() - '0');
      rest_.remove_prefix(1);
      any = true;
      if (out > kMost) return false;
    }
    return any;
  }

  std::string_view rest_;
};

}  // namespace

bool CharClass::contains(const Char& c) const {
  bool inside = c.in(kinds) || (space && c.is_space());
  for (const auto& [first, last] : ranges) inside |= c.code_point >= first && c.code_point <= last;
  return inside != negated;
}

std::optional<ClassRun> ClassRun::parse(std::string_view regex) {
  ClassRun out;
  Reader reader(regex);
  if (!reader.char_class(out.run_)) return std::nullopt;
  if (reader.take('?')) {
    out.before_ = std::move(out.run_);
    out.run_ = {};
    if (!reader.char_class(out.run_)) return std::nullopt;
  }
  if (!reader.repeat(out.least_, out.most_, kUnlimited)) return std::nullopt;
  // The same class spelled again: [0-9][0-9][0-9].
  while (!reader.done() && out.least_ == out.most_ && !out.before_) {
    CharClass again;
    if (!reader.char_class(again) || again != out.run_) return std::nullopt;
    ++out.least_;
    ++out.most_;
  }
  if (!reader.done()) return std::nullopt;
  return out;
}

size_t ClassRun::match(std::string_view text, size_t at) const {
  const auto run_from = [&](size_t start) {
    size_t end = start;
    uint32_t count = 0;
    for (; count < most_ && end < text.size(); ++count) {
      const Char c = char_at(text, end);
      if (!run_.contains(c)) break;
      end += c.length;
    }
    return count >= least_ ? end : start;
  };
  if (before_) {
    const Char c = char_at(text, at);
    const size_t next = at + c.length;
    if (before_->contains(c)) {
      if (const size_t end = run_from(next); end != next) return end;
    }
  }
  return run_from(at);
}

}  // namespace bulkhead::text
