// The options of `bulkhead eval` and of the commands below it.
//
// Threads: main thread.
#pragma once

#include <CLI/CLI.hpp>

#include "commands.h"

namespace bulkhead::apps {

struct EvalCommands {
  EvalOptions run;
  EvalCompareOptions compare;
  EvalPrecisionOptions precision;
};

CLI::App* add_eval(CLI::App& root, EvalCommands& commands);
int run_eval_command(const CLI::App& app, const EvalCommands& commands);

}  // namespace bulkhead::apps
