// ARC as lm-eval's tasks `arc_challenge` and `arc_easy` ask and score it.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/eval/question.h"
#include "apps/eval/tasks/catalog.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

struct ArcItem {
  std::string question;
  std::vector<std::string> choices;
  size_t right = 0;
};

// Question and choices out of an instruction ("... the question: Q\n\nAnswer1: a Answer2: b\n\n
// Answer format: answer1/answer2"), the right one out of "answer2". Errors: kCorruptData with what
// is missing.
base::Result<ArcItem> parse_arc(const std::string& instruction, const std::string& answer);

// eval/arc/ARC-{Challenge,Easy}-test.json; examples, where wished, are the last of the file, which
// are not asked then.
base::Result<Task> load_arc_challenge(const LoadOptions& options);
base::Result<Task> load_arc_easy(const LoadOptions& options);

}  // namespace bulkhead::apps::eval
