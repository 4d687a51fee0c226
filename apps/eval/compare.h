// Two results over the same questions, side by side: what changed, and whether that can be chance.
//
// Threads: pure functions. Invariants: only questions that both have are compared, and only of
// tasks that asked the same; a difference is `after` less `before`.
#pragma once

#include <string>
#include <vector>

#include "apps/eval/report.h"
#include "apps/eval/statistics.h"

namespace bulkhead::apps::eval {

struct Comparison {
  std::string task;
  std::string measure;
  // Of a share:
  Paired pairs;
  Interval interval;  // of the difference
  double p_value = 1.0;
  std::vector<std::string> lost;    // ids: right before, wrong after
  std::vector<std::string> gained;  // the other way round

  double before() const;
  double after() const;
};

// Figures that are no shares, such as perplexities.
struct FigureChange {
  std::string task;
  std::string name;
  double before = 0.0, after = 0.0;
};

struct ComparedResults {
  std::vector<Comparison> shares;
  std::vector<FigureChange> figures;
  std::vector<std::string> notes;  // what was not compared, and why
};

// Errors: kInvalidArgument where a task asked other questions, or nothing is in both.
base::Result<ComparedResults> compare(const std::vector<TaskResult>& before,
                                      const std::vector<TaskResult>& after);

// Shares that fell by more than chance, where the whole interval lies below 0: "mmlu acc".
std::vector<std::string> losses(const ComparedResults& compared);

std::string comparison_text(const ComparedResults& compared, uint64_t flips_max);
std::string comparison_json(const ComparedResults& compared);

}  // namespace bulkhead::apps::eval
