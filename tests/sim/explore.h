// Seeds in a row, each in a process of its own, and what is left of a failure when everything that
// it does not need is taken away.
//
// Threads: one. Invariant: a run that ends its process (a check that failed, a crash) is a failure
// like any other and does not end the caller.
#pragma once

#include <functional>
#include <ostream>
#include <set>

#include "sim/world.h"

namespace bulkhead::sim {

// In a child process.
RunResult run_apart(const SwarmConfig& config, const RunOptions& options);

// The run with only these faults.
using RunWith = std::function<RunResult(const std::set<FaultId>& only)>;

// A list of faults from which none can be left out: without it the run does not fail. `failed` is
// the run with all that struck.
RunResult minimise(const RunWith& run_with, RunResult failed);
RunResult minimise(const SwarmConfig& config, const RunOptions& options, RunResult failed);

// Seed, configuration, the failure and the faults it needs.
void print_failure(std::ostream& out, const SwarmConfig& config, const RunOptions& options,
                   const RunResult& failed);

}  // namespace bulkhead::sim
