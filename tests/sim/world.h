// One run of one configuration: processes, clients, network and faults in one queue of events.
//
// Threads: one. Invariants: a run is a function of its configuration and of the faults left to
// strike; after so many steps faults stop, and everything has to come to rest in a bounded time,
// with nothing held and the next request answered.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/faults.h"
#include "sim/judge.h"
#include "sim/swarm.h"

namespace bulkhead::sim {

struct RunOptions {
  uint64_t steps = 2000;                  // of processes, while faults may strike
  uint64_t audit_every = 1;               // steps of a process
  std::optional<std::set<FaultId>> only;  // the faults that may strike; nothing: all
  bool tolerate_wrong_tokens = false;
  std::function<void(const Fault&)> on_fault;  // told as each one strikes
};

struct RunResult {
  std::optional<std::string> failure;
  uint64_t digest = 0;  // of everything that happened
  std::vector<Fault> faults;
  RunStats stats;
};

RunResult run_world(const SwarmConfig& config, const RunOptions& options);

}  // namespace bulkhead::sim
