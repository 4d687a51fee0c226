// The line that a person watches while questions are asked.
//
// Threads: one at a time. Invariant: on a terminal one line is rewritten and leaves nothing behind;
// elsewhere a whole line comes at each tenth of the questions.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "apps/eval/outcome.h"

namespace bulkhead::apps::eval {

// "2 h 5 min", "3 min", "40 s".
std::string duration_text(double seconds);

class Progress {
 public:
  // `before`: questions that were finished in an earlier run.
  Progress(std::ostream& out, bool terminal, std::string task, uint64_t before, uint64_t total)
      : out_(out), terminal_(terminal), task_(std::move(task)), before_(before), total_(total) {}

  // `elapsed_s`: since the first question of this run was asked.
  void add(const Outcome& outcome, double elapsed_s);
  void finish();

  // "mmlu 120 of 14042, acc 31.7 %, 84 % of prompt tokens from the cache, 3 min left".
  std::string text(double elapsed_s) const;

 private:
  std::ostream& out_;
  const bool terminal_;
  const std::string task_;
  const uint64_t before_;
  const uint64_t total_;
  uint64_t done_ = 0, tenths_ = 0;
  uint64_t prompt_tokens_ = 0, cached_tokens_ = 0;
  std::string measure_;
  double sum_ = 0.0;
  bool open_line_ = false;
};

}  // namespace bulkhead::apps::eval
