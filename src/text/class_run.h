// The simplest regular expressions: a run of one character class, with one optional character
// before it. `\p{N}`, `\p{N}{1,3}`, `\s?\p{L}+`, `[0-9][0-9][0-9]`, `[一-龥]+`.
//
// Threads: immutable once parsed.
// Invariant: a text that does not parse is not approximated.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace bulkhead::text {

// Characters by kind, by white space, and by range.
struct CharClass {
  KindSet kinds = 0;
  bool space = false;
  bool negated = false;
  std::vector<std::pair<char32_t, char32_t>> ranges;  // both ends inside

  bool contains(const Char& c) const;
  bool operator==(const CharClass&) const = default;
};

class ClassRun {
 public:
  static std::optional<ClassRun> parse(std::string_view regex);

  // End of the match that starts at `at`, or `at` for none.
  size_t match(std::string_view text, size_t at) const;

 private:
  static constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

  std::optional<CharClass> before_;
  CharClass run_;
  uint32_t least_ = 1;
  uint32_t most_ = 1;
};

}  // namespace bulkhead::text
