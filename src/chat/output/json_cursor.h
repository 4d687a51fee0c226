// Follows JSON text character by character: whether it is valid so far, and where in it one is.
//
// Threads: one thread at a time. Invariants: strict RFC 8259, except that bytes of strings are not
// checked as UTF-8; after the first invalid character it stays failed; the nesting is bounded.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bulkhead::chat {

class JsonCursor {
 public:
  // False: the text is invalid from here on.
  bool feed(char c);

  bool failed() const { return state_ == State::kFailed; }
  bool in_string() const {
    return state_ == State::kString || state_ == State::kEscape || hex_ > 0;
  }
  bool in_number() const { return state_ >= State::kMinus && state_ <= State::kExponent; }
  // Inside a string that is a member's name.
  bool in_key() const { return in_string() && key_; }
  // A value has ended and what is around it goes on.
  bool after_value() const { return state_ == State::kAfterValue; }
  bool expects_value() const { return state_ == State::kValue || state_ == State::kFirstItem; }
  // Objects and arrays that are open.
  size_t depth() const { return nesting_.size(); }
  // One whole value, white space around it included; a number's end needs no more text.
  bool complete() const;
  bool is_object() const { return object_; }  // the outermost value is one

 private:
  enum class State : uint8_t {
    kValue,
    kFirstItem,  // a value or ]
    kFirstKey,   // a name or }
    kKey,
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,
    kZero,
    kInteger,
    kDot,
    kFraction,
    kE,
    kESign,
    kExponent,
    kFailed,
  };

  bool fail() {
    state_ = State::kFailed;
    return false;
  }
  bool to(State state) {
    state_ = state;
    return true;
  }
  bool begin_value(char c);
  bool open(bool object);
  bool close(bool object);
  bool after_value(char c);
  bool in_string(char c);
  bool in_number(char c);
  bool number_ended(char c);

  State state_ = State::kValue;
  std::vector<bool> nesting_;  // true: an object
  std::string_view literal_;   // what is left of it
  int hex_ = 0;                // digits that \u still needs
  bool key_ = false;
  bool object_ = false;
};

}  // namespace bulkhead::chat
