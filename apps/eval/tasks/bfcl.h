// BFCL's single-turn sets for Python: calls asked for over /v1/chat/completions.
//
// Threads: pure functions.
#pragma once

#include <boost/json.hpp>

#include "apps/eval/question.h"
#include "apps/eval/tasks/catalog.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// A function of a set as a tool of the API: names without dots, types of JSON Schema.
boost::json::object tool_of(const boost::json::object& function);

// eval/bfcl/BFCL_v4_SET.json and answer_BFCL_v4_SET.json of simple_python, multiple, parallel,
// parallel_multiple, live_simple; of irrelevance, where no call is right, the first alone.
base::Result<Task> load_bfcl(const LoadOptions& options);

}  // namespace bulkhead::apps::eval
