// Cuts text into the words that byte-pair merges never cross.
//
// Threads: immutable once built; any thread may split.
// Invariants: the pieces joined are the text (plus the prefix spaces a file asks for); time is
// linear in the text for every text.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/class_run.h"
#include "text/patterns.h"

namespace bulkhead::text {

// Each digit alone, or each run of digits together.
struct SplitDigits {
  bool individual = false;
};
// A space in front of a piece that does not start with one.
struct PrefixSpace {};

using SplitStep = std::variant<Matcher, ClassRun, SplitDigits, PrefixSpace>;

// A step for a Split pre-tokenizer's regular expression; the error names what is supported.
base::Result<SplitStep> split_by_regex(std::string_view regex);

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // `piece` is not empty and lives only until the call returns.
  virtual void take(std::string_view piece) = 0;
};

class PreTokenizer {
 public:
  static constexpr size_t kMaxSteps = 16;

  explicit PreTokenizer(std::vector<SplitStep> steps) : steps_(std::move(steps)) {}

  void split(std::string_view text, PieceSink& sink) const { split_from(0, text, sink); }

 private:
  void split_from(size_t step, std::string_view text, PieceSink& sink) const;

  std::vector<SplitStep> steps_;
};

}  // namespace bulkhead::text
