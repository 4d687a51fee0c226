// GSM8K as lm-eval's task `gsm8k` asks and scores it.
//
// Threads: pure functions, total on every answer.
#pragma once

#include <string>
#include <string_view>

#include "apps/eval/question.h"
#include "apps/eval/tasks/catalog.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// lm-eval's two filters: the number after the first "#### ", and the last thing that looks like a
// number. "[invalid]" where there is none.
std::string strict_match(std::string_view answer);
std::string flexible_extract(std::string_view answer);
// Equal but for case, commas, dollar signs, a full stop at the end and what stands before "#### ".
bool numbers_match(std::string_view extracted, std::string_view solution);

// eval/gsm8k/{train,test}.jsonl; the first examples of train stand before every question.
base::Result<Task> load_gsm8k(const LoadOptions& options);

}  // namespace bulkhead::apps::eval
