// Regular expressions of JSON schemas (ECMA 262) with a matcher of linear time.
//
// Threads: immutable after construction. Invariants: a pattern that is not understood exactly is
// refused, never approximated; matching never backtracks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace re2 {
class RE2;
}

namespace bulkhead::constraint {

inline constexpr size_t kPatternBytesMax = 1024;
inline constexpr int kPatternDepthMax = 16;        // of groups
inline constexpr int64_t kPatternRepeatMax = 128;  // of a count in braces
inline constexpr int64_t kPatternCostMax = 128;    // characters and classes, counts multiplied out

class Pattern {
 public:
  // Errors: kInvalidArgument for what is no regular expression or beyond the limits, kUnsupported
  // for what it has and this does not (look-around, back-references).
  static base::Result<Pattern> compile(std::string_view text);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Somewhere in the text, as JSON schema wants it.
  bool found_in(std::string_view text) const;

 private:
  explicit Pattern(std::unique_ptr<re2::RE2> program);
  std::unique_ptr<re2::RE2> program_;
};

// For a pattern that is one character class repeated, "^[a-z]+$" and the like: the same with
// between `least` and `most` characters (-1: any number). Nothing for other patterns, and where no
// length fits.
std::optional<std::string> pattern_with_length(std::string_view text, int64_t least, int64_t most);

// The limits alone, without compiling: what every pattern must pass before any engine sees it. The
// value is its cost.
base::Result<int64_t> pattern_cost(std::string_view text);

}  // namespace bulkhead::constraint
