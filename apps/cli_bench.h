// The options of `bulkhead bench` and its commands.
//
// Threads: main thread. Invariant: as cli.h.
#pragma once

#include <CLI/CLI.hpp>

#include "commands.h"

namespace bulkhead::apps {

struct BenchCommands {
  BenchKernelsOptions kernels;
  BenchServeOptions serve;
  BenchReplayOptions replay;
  BenchHistoryOptions history;
  BenchPeerOptions peer;
  ReproduceOptions reproduce;
};

// The subcommand, which fills `options`; and what runs the command that was chosen under it.
CLI::App* add_bench(CLI::App& root, BenchCommands& options);
int run_bench(const CLI::App& bench, const BenchCommands& options);

}  // namespace bulkhead::apps
