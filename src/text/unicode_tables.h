// Generated Unicode data: character classes and canonical composition.
//
// Threads: constants.
// Invariants: range arrays are sorted by code point and start at 0; an entry holds until the next
// one. The search arrays are sorted by their key.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bulkhead::text::tables {

// Full canonical decomposition of one code point: kDecomposed[offset, offset + length).
struct Decomposition {
  char32_t code_point;
  uint16_t offset;
  uint16_t length;
};

struct Composition {
  char32_t first;
  char32_t second;
  char32_t composed;
};

extern const uint32_t kClasses[];  // first code point << 8 | flags (unicode.h)
extern const size_t kClassesSize;
extern const uint32_t kCombining[];  // first code point << 8 | canonical combining class
extern const size_t kCombiningSize;
extern const Decomposition kDecompositions[];
extern const size_t kDecompositionsSize;
extern const char32_t kDecomposed[];
extern const size_t kDecomposedSize;
extern const Composition kCompositions[];
extern const size_t kCompositionsSize;

}  // namespace bulkhead::text::tables
