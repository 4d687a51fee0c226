#include "text/unicode.h"

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

Char char_before(std::string_view text, size_t end) {
  // The lead byte is at most three bytes before the last one.
  for (size_t length = 1; length <= 4 && length <= end; ++length) {
    const base::Utf8Char c = base::decode_utf8(text.substr(end - length, length));
    if (c.valid && c.length == length) return char_at(text, end - length);
  }
  return {base::kReplacementCharacter, 1, kSymbol};
}

}  // namespace bulkhead::text
