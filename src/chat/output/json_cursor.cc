#include "chat/output/json_cursor.h"

namespace bulkhead::chat {
namespace {

constexpr size_t kDepthMax = 256;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

bool JsonCursor::complete() const {
  if (!nesting_.empty()) return false;
  return state_ == State::kAfterValue || state_ == State::kZero || state_ == State::kInteger ||
         state_ == State::kFraction || state_ == State::kExponent;
}

bool JsonCursor::open(bool object) {
  if (nesting_.size() >= kDepthMax) return fail();
  if (nesting_.empty()) object_ = object;
  nesting_.push_back(object);
  return to(object ? State::kFirstKey : State::kFirstItem);
}

bool JsonCursor::close(bool object) {
  if (nesting_.empty() || nesting_.back() != object) return fail();
  nesting_.pop_back();
  return to(State::kAfterValue);
}

bool JsonCursor::begin_value(char c) {
  switch (c) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      key_ = false;
      return to(State::kString);
    case '-':
      return to(State::kMinus);
    case '0':
      return to(State::kZero);
    case 't':
      literal_ = "rue";
      return to(State::kLiteral);
    case 'f':
      literal_ = "alse";
      return to(State::kLiteral);
    case 'n':
      literal_ = "ull";
      return to(State::kLiteral);
    default:
      return is_digit(c) ? to(State::kInteger) : fail();
  }
}

bool JsonCursor::after_value(char c) {
  if (is_space(c)) return true;
  if (nesting_.empty()) return fail();
  if (c == ',') return to(nesting_.back() ? State::kKey : State::kValue);
  if (c == '}' || c == ']') return close(c == '}');
  return fail();
}

bool JsonCursor::in_string(char c) {
  if (c == '"') return to(key_ ? State::kColon : State::kAfterValue);
  if (c == '\\') return to(State::kEscape);
  return static_cast<unsigned char>(c) < 0x20 ? fail() : true;
}

bool JsonCursor::number_ended(char c) {
  state_ = State::kAfterValue;
  return after_value(c);
}

bool JsonCursor::in_number(char c) {
  switch (state_) {
    case State::kMinus:
      if (c == '0') return to(State::kZero);
      return is_digit(c) ? to(State::kInteger) : fail();
    case State::kZero:
    case State::kInteger:
      if (is_digit(c)) return state_ == State::kInteger ? true : fail();
      if (c == '.') return to(State::kDot);
      return c == 'e' || c == 'E' ? to(State::kE) : number_ended(c);
    case State::kDot:
      return is_digit(c) ? to(State::kFraction) : fail();
    case State::kFraction:
      if (is_digit(c)) return true;
      return c == 'e' || c == 'E' ? to(State::kE) : number_ended(c);
    case State::kE:
      if (c == '+' || c == '-') return to(State::kESign);
      return is_digit(c) ? to(State::kExponent) : fail();
    case State::kESign:
      return is_digit(c) ? to(State::kExponent) : fail();
    default:
      return is_digit(c) ? true : number_ended(c);
  }
}

bool JsonCursor::feed(char c) {
  switch (state_) {
    case State::kValue:
      return is_space(c) ? true : begin_value(c);
    case State::kFirstItem:
      if (c == ']') return close(false);
      return is_space(c) ? true : begin_value(c);
    case State::kFirstKey:
    case State::kKey:
      if (is_space(c)) return true;
      if (c == '}' && state_ == State::kFirstKey) return close(true);
      if (c != '"') return fail();
      key_ = true;
      return to(State::kString);
    case State::kColon:
      if (is_space(c)) return true;
      return c == ':' ? to(State::kValue) : fail();
    case State::kAfterValue:
      return after_value(c);
    case State::kString:
      return in_string(c);
    case State::kEscape:
      if (c == 'u') {
        hex_ = 4;
        return to(State::kHex);
      }
      return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? fail()
                                                                              : to(State::kString);
    case State::kHex:
      if (!is_hex(c)) {
        hex_ = 0;
        return fail();
      }
      return --hex_ > 0 ? true : to(State::kString);
    case State::kLiteral:
      if (c != literal_.front()) return fail();
      literal_.remove_prefix(1);
      return literal_.empty() ? to(State::kAfterValue) : true;
    case State::kFailed:
      return false;
    default:
      return in_number(c);
  }
}

}  // namespace bulkhead::chat
