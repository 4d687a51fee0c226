// MMLU as lm-eval's task `mmlu` asks and scores it.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/question.h"
#include "apps/eval/tasks/catalog.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// Rows of fields (RFC 4180: quoted fields may hold commas, line breaks and doubled quotes).
// Errors: kCorruptData with the line where a quote is left open.
base::Result<std::vector<std::vector<std::string>>> parse_csv(std::string_view text);

// eval/mmlu/{dev,test}/SUBJECT_{dev,test}.csv, every subject that test has; the subject's dev
// questions stand before its own. Rows are question, four choices, and the key as letter or number;
// a row of column names may stand before them.
base::Result<Task> load_mmlu(const LoadOptions& options);

}  // namespace bulkhead::apps::eval
