// Asks one server the questions of some tasks, from where an interrupted run stopped.
//
// Threads: the caller's and those of run.h, which end before it returns. Invariants: an outcome is
// in the journal before it counts; what a task's answers depend on stands in its identity, the
// deployment's own settings among that; nothing that is known is asked again.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/eval/ask/asker.h"
#include "apps/eval/options.h"
#include "apps/eval/outcome.h"
#include "apps/eval/report.h"
#include "apps/server_address.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// Connections to one server; one for each thread.
Transport transport_to(const EvalOptions& options, const ServerAddress& address);

// What options.tasks name, with all their questions. Errors: those of load_task; none named.
base::Result<std::vector<Task>> load_tasks(const EvalOptions& options);

struct Deployment {
  ServerAddress address;
  std::vector<std::pair<std::string, std::string>> settings;  // beyond what the server tells
};

// The questions of `tasks` that options.limit keeps. What `known` results have is not asked again;
// their other tasks stay as they are. With options.output the result is written there, and
// OUTPUT.journal beside it keeps what is done until then. Errors: those of the server, of its
// answers and of the journal; kInvalidArgument where a known result was made by other means.
base::Result<std::vector<TaskResult>> run_suite(const EvalOptions& options, std::vector<Task> tasks,
                                                const Deployment& deployment,
                                                std::vector<TaskResult> known);

// Whether these results answer all that would be asked, as far as that can be told without a
// server. Errors: kInvalidArgument where one was made by other means.
base::Result<bool> answers_all(const EvalOptions& options, const std::vector<Task>& tasks,
                               const Deployment& deployment, const std::vector<TaskResult>& known);

// A result file.
base::Result<std::vector<TaskResult>> read_result_file(const std::string& path);

}  // namespace bulkhead::apps::eval
