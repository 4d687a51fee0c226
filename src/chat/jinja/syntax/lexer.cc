#include "chat/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/syntax/literals.h"
#include "chat/jinja/unicode.h"

namespace bulkhead::chat::jinja {
namespace {

// \r\n and \r become \n; one newline at the very end goes away.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_text();
    emit(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  // What a tag's opening delimiter asks of the text before it.
  struct Opening {
    char kind;  // '%', '{' or '#'
    char sign;  // '-', '+' or 0
    size_t begin;
    size_t inside;  // first byte after the sign
  };

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts_with(std::string_view text) const { return rest().starts_with(text); }

  void emit(TokenKind kind, std::string_view text) {
    tokens_.push_back(Token{kind, line_, std::string(text), 0, 0.0});
  }

  void advance(size_t bytes) {
    const auto from = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ +=
        static_cast<uint32_t>(std::count(from, from + static_cast<std::ptrdiff_t>(bytes), '\n'));
    at_ += bytes;
    line_starting_ = bytes > 0 && source_[at_ - 1] == '\n';
  }

  size_t spaces_at(size_t at) const {
    size_t end = at;
    while (end < source_.size()) {
      const base::Utf8Char c = base::decode_utf8(std::string_view(source_).substr(end));
      if (!is_space(c.code_point)) break;
      end += c.length;
    }
    return end - at;
  }

  bool find_opening(Opening& found) const {
    for (size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1)) {
      if (i + 1 >= source_.size()) return false;
      const char kind = source_[i + 1];
      if (kind != '%' && kind != '{' && kind != '#') continue;
      const char next = i + 2 < source_.size() ? source_[i + 2] : '\0';
      const bool has_sign = next == '-' || next == '+';
      found = Opening{kind, has_sign ? next : '\0', i, i + (has_sign ? 3 : 2)};
      return true;
    }
    return false;
  }

  static bool all_space(std::string_view text) {
    while (!text.empty()) {
      const base::Utf8Char c = base::decode_utf8(text);
      if (!is_space(c.code_point)) return false;
      text.remove_prefix(c.length);
    }
    return true;
  }

  static std::string_view without_trailing_space(std::string_view text) {
    size_t keep = 0;
    for (size_t at = 0; at < text.size();) {
      const base::Utf8Char c = base::decode_utf8(text.substr(at));
      at += c.length;
      if (!is_space(c.code_point)) keep = at;
    }
    return text.substr(0, keep);
  }

  // Text before a tag: `-` strips all space, otherwise a block or comment tag that stands alone at
  // the start of its line loses its indentation.
  std::string_view stripped(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return without_trailing_space(text);
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if (start == 0 && !line_starting_) return text;
    return all_space(text.substr(start)) ? text.substr(0, start) : text;
  }

  void emit_data(std::string_view text) {
    if (!text.empty()) emit(TokenKind::kData, text);
  }

  void lex_text() {
    Opening opening;
    if (!find_opening(opening)) {
      emit_data(rest());
      advance(source_.size() - at_);
      return;
    }
    const std::string_view before(source_.data() + at_, opening.begin - at_);
    emit_data(stripped(before, opening.sign, opening.kind == '{'));
    advance(opening.inside - at_);
    if (opening.kind == '#') return lex_comment();
    if (opening.kind == '%' && lex_raw()) return;
    lex_tag(opening.kind == '%');
  }

  // The end delimiter `close` ("%}", "}}" or "#}") at `at`: its length with whitespace control, 0
  // when it is not there.
  size_t closing_length(size_t at, std::string_view close, bool trims, bool allows_plus) const {
    const std::string_view text = std::string_view(source_).substr(at);
    if (text.starts_with('-') && text.substr(1).starts_with(close)) {
      return 3 + spaces_at(at + 3);
    }
    if (allows_plus && text.starts_with('+') && text.substr(1).starts_with(close)) return 3;
    if (!text.starts_with(close)) return 0;
    return trims && text.size() > 2 && text[2] == '\n' ? 3 : 2;
  }

  void lex_comment() {
    for (size_t i = at_; i < source_.size(); ++i) {
      if (source_[i] != '-' && source_[i] != '+' && source_[i] != '#') continue;
      const size_t length = closing_length(i, "#}", true, true);
      if (length == 0) continue;
      advance(i + length - at_);
      return;
    }
    // jinja2 notices only when something follows the opening.
    if (at_ < source_.size()) fail_at(line_, "Missing end of comment tag");
  }

  // {% raw %}: the tag is already open. Returns false when it is some other tag.
  bool lex_raw() {
    size_t at = at_ + spaces_at(at_);
    if (!std::string_view(source_).substr(at).starts_with("raw")) return false;
    at += 3;
    at += spaces_at(at);
    const size_t length = closing_length(at, "%}", false, false);
    if (length == 0) return false;
    advance(at + length - at_);
    for (size_t i = source_.find("{%", at_); i != std::string::npos;
         i = source_.find("{%", i + 1)) {
      size_t inside = i + 2;
      char sign = '\0';
      if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
        sign = source_[inside++];
      }
      inside += spaces_at(inside);
      if (!std::string_view(source_).substr(inside).starts_with("endraw")) continue;
      inside += 6;
      inside += spaces_at(inside);
      const size_t close = closing_length(inside, "%}", true, true);
      if (close == 0) continue;
      emit_data(stripped(std::string_view(source_).substr(at_, i - at_), sign, false));
      advance(inside + close - at_);
      return true;
    }
    if (at_ < source_.size()) fail_at(line_, "Missing end of raw directive");
    return true;
  }

  void lex_tag(bool is_block) {
    emit(is_block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, {});
    std::string open_brackets;
    while (at_ < source_.size()) {
      if (open_brackets.empty()) {
        const size_t length = is_block ? closing_length(at_, "%}", true, true)
                                       : closing_length(at_, "}}", false, false);
        if (length != 0) {
          emit(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, {});
          advance(length);
          return;
        }
      }
      lex_token(open_brackets);
    }
    emit(TokenKind::kEnd, {});
  }

  void lex_token(std::string& open_brackets) {
    if (const size_t spaces = spaces_at(at_); spaces > 0) return advance(spaces);
    const char c = source_[at_];
    if (c >= '0' && c <= '9') return lex_number();
    if (c == '"' || c == '\'') return lex_string(c);
    if (const size_t length = name_length(); length > 0) {
      emit(TokenKind::kName, rest().substr(0, length));
      return advance(length);
    }
    lex_operator(open_brackets);
  }

  size_t name_length() const {
    size_t length = 0;
    for (std::string_view text = rest(); length < text.size();) {
      const base::Utf8Char c = base::decode_utf8(text.substr(length));
      if (c.code_point != '_' && !is_alnum(c.code_point)) break;
      length += c.length;
    }
    return length;
  }

  void lex_number() {
    const NumberLiteral literal = parse_number_literal(rest());
    Token token{literal.is_float ? TokenKind::kFloat : TokenKind::kInteger, line_, {}, 0, 0.0};
    token.integer = literal.integer;
    token.number = literal.number;
    if (literal.out_of_range) fail_at(line_, "integer literal is too large");
    tokens_.push_back(std::move(token));
    advance(literal.length);
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, "unterminated string literal");
    std::string text;
    if (!decode_string_literal(std::string_view(source_).substr(at_ + 1, end - at_ - 1), text)) {
      fail_at(line_, "malformed escape in a string literal");
    }
    emit(TokenKind::kString, text);
    advance(end + 1 - at_);
  }

  void lex_operator(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 6> kLong = {"**", "//", "==", "!=", ">=", "<="};
    static constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view symbol : kLong) {
      if (!starts_with(symbol)) continue;
      emit(TokenKind::kOperator, symbol);
      return advance(2);
    }
    const char c = source_[at_];
    if (kShort.find(c) == std::string_view::npos) {
      fail_at(line_, "unexpected character in a tag");
    }
    track_bracket(c, open_brackets);
    emit(TokenKind::kOperator, std::string_view(&c, 1));
    advance(1);
  }

  void track_bracket(char c, std::string& open_brackets) const {
    if (c == '(') open_brackets += ')';
    if (c == '[') open_brackets += ']';
    if (c == '{') open_brackets += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (open_brackets.empty()) fail_at(line_, std::string("unexpected '") + c + "'");
    const char expected = open_brackets.back();
    open_brackets.pop_back();
    if (expected == c) return;
    fail_at(line_, std::string("unexpected '") + c + "', expected '" + expected + "'");
  }

  std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalized(source)).run(); }

}  // namespace bulkhead::chat::jinja
