// Asks the questions of a task, several at a time, those with one prefix one after its first.
//
// Threads: run_questions starts `concurrency` threads and ends them before it returns; `on_outcome`
// is called by one at a time. Invariants: every question is asked once; with `shares_prefix` the
// first of a group is answered before another of that group is asked, so that they find their
// prefix in the server's cache; after an error no further question is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/eval/ask/asker.h"
#include "apps/eval/outcome.h"
#include "apps/eval/question.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// Which question is asked next. Threads: one at a time.
class AskOrder {
 public:
  AskOrder(const std::vector<const Question*>& questions, bool shares_prefix);

  // Nothing: none is ready now, or none is left.
  std::optional<size_t> take();
  void answered(size_t index);
  bool empty() const { return left_ == 0; }

 private:
  struct Group {
    std::vector<size_t> questions;
    size_t taken = 0;
    bool open = false;  // its first is answered
  };
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;
  size_t first_ = 0;  // all groups before are taken whole
  size_t left_ = 0;
};

// An asker for each thread. `wait` is false when the run has ended.
using MakeAsker = std::function<Asker(std::function<bool(std::chrono::milliseconds)> wait)>;

// Errors: the first that an asker or `on_outcome` had; a question's names it.
base::Status run_questions(const std::vector<const Question*>& questions, bool shares_prefix,
                           unsigned concurrency, const MakeAsker& make_asker,
                           const std::function<base::Status(Outcome)>& on_outcome);

}  // namespace bulkhead::apps::eval
