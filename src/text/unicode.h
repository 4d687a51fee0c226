// Characters and their classes, as the regular expressions of published tokenizers see them.
//
// Threads: pure functions over constant tables.
// Invariants: classes are Unicode 16.0 (equal to `tokenizers` 0.23 on every code point); a byte
// that is part of no character is one character of class kSymbol, the class of U+FFFD.
#pragma once

#include <cstdint>
#include <string_view>

namespace bulkhead::text {

// The low four bits of Char::flags: the general category, as far as patterns ask for it.
enum Kind : uint8_t {
  kOther = 0,
  kUpper,
  kLower,
  kTitle,
  kModifierLetter,
  kOtherLetter,
  kMark,
  kNumber,
  kPunctuation,
  kSymbol,
  kSeparator,
};

// Set of kinds, one bit each.
using KindSet = uint16_t;
constexpr KindSet set_of(Kind kind) { return static_cast<KindSet>(1u << kind); }
inline constexpr KindSet kLetters = set_of(kUpper) | set_of(kLower) | set_of(kTitle) |
                                    set_of(kModifierLetter) | set_of(kOtherLetter);
inline constexpr KindSet kMarks = set_of(kMark);
inline constexpr KindSet kNumbers = set_of(kNumber);

inline constexpr uint8_t kKindMask = 0x0F;
inline constexpr uint8_t kSpaceFlag = 0x10;      // \s
inline constexpr uint8_t kDigitFlag = 0x20;      // what the Digits pre-tokenizer splits on
inline constexpr uint8_t kWordFlag = 0x40;       // \w
inline constexpr uint8_t kNfcActiveFlag = 0x80;  // may change, move or join under NFC

struct Char {
  char32_t code_point;
  uint32_t length;  // bytes, at least 1
  uint8_t flags;

  bool is_space() const { return (flags & kSpaceFlag) != 0; }
  bool in(KindSet kinds) const { return ((kinds >> (flags & kKindMask)) & 1u) != 0; }
};

// Flags by code point, 0x110000 of them: a lookup is one load, and only the pages of scripts in use
// get touched.
const uint8_t* expand_class_table();

inline const uint8_t* class_table() {
  static const uint8_t* const table = expand_class_table();
  return table;
}

Char wide_char_at(std::string_view text, size_t at);  // any character that is not ASCII

// The character of `text` at `at`, which must be inside.
inline Char char_at(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, class_table()[first]};
  return wide_char_at(text, at);
}

// \p{Han}: what is written in Chinese characters, with their radicals, numbers and iteration marks.
bool is_han(const Char& c);

// The character of `text` that ends at `end`, which must not be 0.
Char char_before(std::string_view text, size_t end);

}  // namespace bulkhead::text
