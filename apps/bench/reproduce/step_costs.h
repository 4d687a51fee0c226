// What the calls of a guard cost decode steps, of steps timed in turn without and with them.
//
// Threads: pure functions. Invariants: a step's own share is what the clock says of the guard's
// calls inside of it; what they do to the rest of the step shows in the pairs alone.
//
// The slow end is told twice. Apart: the quantile of all steps with the check over that of all
// without, which assumes nothing and which noise hides, since slow steps are made by whatever else
// the machine does. Together: the quantile of steps with the check, over that of the very same
// steps less what the check took of each: its calls by the clock, and what it does to the rest of a
// step by the pairs, taken to be the same in slow steps as in others.
#pragma once

#include <span>

#include "apps/bench/reproduce/check_race.h"
#include "apps/bench/reproduce/table.h"

namespace bulkhead::apps::reproduce {

struct StepCosts {
  Cost throughput;
  TailCost p99;  // of the time between a request's tokens, which is a step's
};
// Round by round, at least one.
StepCosts step_costs(std::span<const StepTime> without, std::span<const StepTime> with);

// Time in the guard over time elsewhere.
double own_share(std::span<const StepTime> times);
double median_seconds(std::span<const StepTime> times);

}  // namespace bulkhead::apps::reproduce
