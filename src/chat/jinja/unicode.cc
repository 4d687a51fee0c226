#include "chat/jinja/unicode.h"

#include <algorithm>
#include <iterator>

#include "base/utf8.h"

namespace bulkhead::chat::jinja {
namespace {

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// Characters first, first + stride, ... last all move by `distance`.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
  int32_t distance;
};

struct LongCase {
  uint32_t code_point;
  uint32_t mapped[3];  // zero-filled
};

#include "chat/jinja/unicode_tables.inc"

template <size_t kSize>
bool in_ranges(const CodeRange (&ranges)[kSize], char32_t c) {
  const CodeRange* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), c,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

template <size_t kRuns, size_t kLong>
void append_from(const CaseRun (&runs)[kRuns], const LongCase (&longer)[kLong], std::string& out,
                 char32_t c) {
  const LongCase* exact = std::lower_bound(
      std::begin(longer), std::end(longer), c,
      [](const LongCase& entry, char32_t value) { return entry.code_point < value; });
  if (exact != std::end(longer) && exact->code_point == c) {
    for (const uint32_t mapped : exact->mapped) {
      if (mapped != 0) base::append_utf8(out, mapped);
    }
    return;
  }
  const CaseRun* after =
      std::upper_bound(std::begin(runs), std::end(runs), c,
                       [](char32_t value, const CaseRun& run) { return value < run.first; });
  if (after != std::begin(runs)) {
    const CaseRun& run = *std::prev(after);
    if (c <= run.last && (c - run.first) % run.stride == 0) {
      c = static_cast<char32_t>(static_cast<int32_t>(c) + run.distance);
    }
  }
  base::append_utf8(out, c);
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) { return in_ranges(kPrintable, c); }
bool is_alpha(char32_t c) { return in_ranges(kAlpha, c); }
bool is_decimal(char32_t c) { return in_ranges(kDecimal, c); }
bool is_digit(char32_t c) { return in_ranges(kDigit, c); }
bool is_numeric(char32_t c) { return in_ranges(kNumeric, c); }
bool is_lower(char32_t c) { return in_ranges(kLower, c); }
bool is_upper(char32_t c) { return in_ranges(kUpper, c); }
bool is_title(char32_t c) { return in_ranges(kTitle, c); }

void append_mapped(std::string& out, char32_t c, CaseMap map) {
  switch (map) {
    case CaseMap::kLower:
      return append_from(kToLower, kToLowerLong, out, c);
    case CaseMap::kUpper:
      return append_from(kToUpper, kToUpperLong, out, c);
    case CaseMap::kTitle:
      return append_from(kToTitle, kToTitleLong, out, c);
    case CaseMap::kFold:
      return append_from(kToFold, kToFoldLong, out, c);
  }
}

}  // namespace bulkhead::chat::jinja
