// The benchmarks that `bulkhead eval` knows.
//
// Threads: pure functions. Invariant: what a task asks depends on its files and shots alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/question.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

struct LoadOptions {
  std::string data;  // folder with eval/ and text/
  int shots = -1;    // examples before a question; below 0: what the task says
};

struct TaskEntry {
  std::string_view name;
  std::string_view meaning;
  bool completions;  // asks /v1/completions; otherwise /v1/chat/completions
  bool prefix;       // needs the token that stands before a text
  base::Result<Task> (*load)(const LoadOptions&);
};

const std::vector<TaskEntry>& task_catalog();

// Errors: kNotFound, where the files are not there, with where they come from; kInvalidArgument for
// an unknown name or too many shots; kCorruptData for a file that is not what it should be.
base::Result<Task> load_task(const std::string& name, const LoadOptions& options);

}  // namespace bulkhead::apps::eval
