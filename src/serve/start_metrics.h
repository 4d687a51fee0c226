// What a process tells of itself once, at start: kernels, sizes of its page pools, times.
//
// Threads: at start, before the registry is read.
#pragma once

#include "kernels/kernel_set.h"
#include "serve/plan.h"
#include "telemetry/metrics.h"

namespace bulkhead::serve {

void register_plan(telemetry::Registry& registry, const Plan& plan,
                   const kernels::KernelSet& kernels);

void register_start(telemetry::Registry& registry, double load_seconds, double ready_seconds);

}  // namespace bulkhead::serve
