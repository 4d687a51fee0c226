#include "text/unicode.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/unicode_tables.h"

namespace bulkhead::text {
namespace {

constexpr size_t kCodePoints = 0x110000;

std::vector<uint8_t> expand_classes() {
  std::vector<uint8_t> flags(kCodePoints);
  for (size_t i = 0; i < tables::kClassesSize; ++i) {
    const bool last = i + 1 == tables::kClassesSize;
    const size_t end = last ? kCodePoints : tables::kClasses[i + 1] >> 8;
    for (size_t c = tables::kClasses[i] >> 8; c < end; ++c) {
      flags[c] = static_cast<uint8_t>(tables::kClasses[i] & 0xFF);
    }
  }
  return flags;
}

}  // namespace

const uint8_t* expand_class_table() {
  static const std::vector<uint8_t> table = expand_classes();
  return table.data();
}

Char wide_char_at(std::string_view text, size_t at) {
  const base::Utf8Char c = base::decode_utf8(text.substr(at));
  if (!c.valid) return {base::kReplacementCharacter, 1, kSymbol};
  return {c.code_point, c.length, class_table()[c.code_point]};
}

bool is_han(const Char& c) {
  // Script=Han of Unicode 16.0 (Scripts.txt); tests/text holds it against tiktoken's \\p{Han}.
  static constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
      {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
      {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
      {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
      {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
      {0x30000, 0x3134A}, {0x31350, 0x323AF},
  };
  if (c.code_point < kRanges[0].first) return false;
  const auto after = std::upper_bound(
      std::begin(kRanges), std::end(kRanges), c.code_point,
      [](char32_t code_point, const auto& range) { return code_point < range.first; });
  return c.code_point <= std::prev(after)->second;
}

Char char_before(std::string_view text, size_t end) {
  // The lead byte is at most three bytes before the last one.
  for (size_t length = 1; length <= 4 && length <= end; ++length) {
    const base::Utf8Char c = base::decode_utf8(text.substr(end - length, length));
    if (c.valid && c.length == length) return char_at(text, end - length);
  }
  return {base::kReplacementCharacter, 1, kSymbol};
}

}  // namespace bulkhead::text
