#include "text/nfc.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/unicode.h"
#include "text/unicode_tables.h"

namespace bulkhead::text {
namespace {

// Hangul syllables are composed by arithmetic (Unicode, section 3.12).
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

struct Mark {
  char32_t code_point;
  uint8_t order;  // canonical combining class, 0 for a starter
  size_t place;   // in the decomposed text; keeps marks of one class in their order
};

uint8_t combining_class(char32_t c) {
  const uint32_t key = (static_cast<uint32_t>(c) << 8) | 0xFF;
  const auto* end = tables::kCombining + tables::kCombiningSize;
  return static_cast<uint8_t>(*std::prev(std::upper_bound(tables::kCombining, end, key)) & 0xFF);
}

void append_decomposed(char32_t c, std::vector<Mark>& out) {
  if (c >= kSyllable && c < kSyllable + kSyllables) {
    const char32_t index = c - kSyllable;
    out.push_back({kLead + index / (kVowels * kTails), 0, 0});
    out.push_back({kVowel + index % (kVowels * kTails) / kTails, 0, 0});
    if (index % kTails != 0) out.push_back({kTail + index % kTails, 0, 0});
    return;
  }
  const auto* end = tables::kDecompositions + tables::kDecompositionsSize;
  const auto* found = std::lower_bound(
      tables::kDecompositions, end, c,
      [](const tables::Decomposition& d, char32_t value) { return d.code_point < value; });
  if (found == end || found->code_point != c) {
    out.push_back({c, combining_class(c), 0});
    return;
  }
  for (size_t i = 0; i < found->length; ++i) {
    const char32_t part = tables::kDecomposed[found->offset + i];
    out.push_back({part, combining_class(part), 0});
  }
}

// The code point that NFC puts in place of the two, 0 for none.
char32_t composed(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  }
  if (first >= kSyllable && first < kSyllable + kSyllables && (first - kSyllable) % kTails == 0 &&
      second > kTail && second < kTail + kTails) {
    return first + (second - kTail);
  }
  const auto* end = tables::kCompositions + tables::kCompositionsSize;
  const auto* found = std::lower_bound(tables::kCompositions, end, std::pair(first, second),
                                       [](const tables::Composition& c, const auto& key) {
                                         return std::pair(c.first, c.second) < key;
                                       });
  if (found == end || found->first != first || found->second != second) return 0;
  return found->composed;
}

void reorder(std::vector<Mark>& marks) {
  for (size_t i = 0; i < marks.size(); ++i) marks[i].place = i;
  const auto is_starter = [](const Mark& mark) { return mark.order == 0; };
  auto at = marks.begin();
  while (at != marks.end()) {
    at = std::find_if_not(at, marks.end(), is_starter);
    const auto end = std::find_if(at, marks.end(), is_starter);
    std::sort(at, end, [](const Mark& a, const Mark& b) {
      return std::pair(a.order, a.place) < std::pair(b.order, b.place);
    });
    at = end;
  }
}

// Joins each starter with the marks after it that nothing of equal or higher class blocks.
void compose(std::vector<Mark>& marks) {
  size_t kept = 0;
  size_t starter = marks.size();  // none yet
  for (const Mark mark : marks) {
    if (starter < kept) {
      const bool adjacent = starter + 1 == kept;
      const bool blocked = !adjacent && marks[kept - 1].order >= mark.order;
      const char32_t joined = blocked ? 0 : composed(marks[starter].code_point, mark.code_point);
      if (joined != 0) {
        marks[starter].code_point = joined;
        continue;
      }
    }
    if (mark.order == 0) starter = kept;
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

void append_segment(std::string_view segment, std::vector<Mark>& scratch, std::string& out) {
  scratch.clear();
  for (size_t at = 0; at < segment.size();) {
    const Char c = char_at(segment, at);
    append_decomposed(c.code_point, scratch);
    at += c.length;
  }
  reorder(scratch);
  compose(scratch);
  for (const Mark& mark : scratch) base::append_utf8(out, mark.code_point);
}

}  // namespace

void append_nfc(std::string_view text, std::string& out) {
  std::vector<Mark> scratch;
  size_t copied = 0;  // [0, copied) is in `out`
  size_t inert = 0;   // start of the last character that can only join with what follows
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if ((c.flags & kNfcActiveFlag) == 0) {
      // A stray byte joins with nothing: the segment that follows starts behind it.
      const bool stray = c.length == 1 && c.code_point == base::kReplacementCharacter;
      inert = stray ? at + 1 : at;
      at += c.length;
      continue;
    }
    size_t end = at + c.length;
    while (end < text.size()) {
      const Char next = char_at(text, end);
      if ((next.flags & kNfcActiveFlag) == 0) break;
      end += next.length;
    }
    out.append(text.substr(copied, inert - copied));
    append_segment(text.substr(inert, end - inert), scratch, out);
    copied = inert = at = end;
  }
  out.append(text.substr(copied));
}

}  // namespace bulkhead::text
