// The figures of a task, and a run's result as a file and as a table.
//
// Threads: pure functions. Invariants: figures are made from the outcomes alone, so a result that
// was read back has the figures that were written; the first measure of a task is its main one.
#pragma once

#include <string>
#include <vector>

#include "apps/eval/outcome.h"
#include "apps/eval/statistics.h"

namespace bulkhead::apps::eval {

struct Figure {
  std::string name;
  double value = 0.0;
  // Of a share of questions; perplexities and means of groups have none.
  bool is_share = false;
  double standard_error = 0.0;
  Interval interval;
};

struct GroupFigures {
  std::string name;
  uint64_t questions = 0;
  std::vector<Figure> figures;
};

struct TaskResult {
  TaskIdentity identity;
  Scoring scoring = Scoring::kShares;
  std::vector<Outcome> outcomes;
  double seconds = 0.0;  // of the questions that were asked in this run
  uint64_t asked = 0;
};

// Over all questions, the mean of the groups' means beside each share where there are groups.
std::vector<Figure> figures_of(const TaskResult& task);
// One for each group, in the order in which they come; none without groups.
std::vector<GroupFigures> groups_of(const TaskResult& task);

std::string result_json(const std::vector<TaskResult>& tasks);
// Errors: kCorruptData with the place.
base::Result<std::vector<TaskResult>> read_result(const std::string& text);

// A Markdown table, with what came out of the cache below it.
std::string result_text(const std::vector<TaskResult>& tasks);

}  // namespace bulkhead::apps::eval
