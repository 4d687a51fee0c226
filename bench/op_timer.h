// The ops of forward passes, counted and timed: every function of a kernel set behind a clock, with
// the operations and bytes that its arguments ask for.
//
// Threads: one forward at a time in a process. Invariant: operations and bytes are of the work that
// was asked for, padding not counted; weights and cache count once a call.
#pragma once

#include <array>
#include <span>

#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::bench {

struct OpTotal {
  const char* name;
  double seconds = 0.0;
  double operations = 0.0;
  double bytes = 0.0;  // of weights or cache, in the format they have
};

enum Op { kGemm, kGroup, kAttention, kSelect, kKvWrite, kNorm, kRope, kSwiglu, kOps };

// The set whose functions call those of `inner`, which replaces the one given before: a kernel has
// no place for a context of its own.
kernels::KernelSet timed_set(kernels::KernelSet inner);
std::span<const OpTotal> op_totals();
void reset_op_totals();

// What a machine can do, per second.
struct Peaks {
  double operations = 0.0;  // FMA, or tiles where `isa` has them
  double bytes = 0.0;       // read from memory
};
Peaks measure_peaks(device::Isa isa, device::ThreadPool& pool);

}  // namespace bulkhead::bench
