// The machine's own limits, measured: what kernels are held against.
//
// Threads: called by the thread that owns the pool.
#pragma once

#include <span>
#include <vector>

#include "device/thread_pool.h"
#include "kernels/amx/tile_ops.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {

// Seconds since some fixed moment.
double bench_seconds();

struct Spread {
  double median = 0.0, p10 = 0.0, p90 = 0.0;
};
// Sorts `samples`, which must not be empty.
Spread spread_of(std::vector<double>& samples);

// FLOP/s of all workers of the pool together.
double fma_rate(const VectorOps& ops, device::ThreadPool& pool);
double tile_rate(const TileOps& ops, device::ThreadPool& pool);
// Bytes/s of one pass over `memory`, shared out between the workers.
double read_rate(const VectorOps& ops, std::span<const float> memory, device::ThreadPool& pool);
// Bytes/s of passes over 256 KiB per worker.
double l2_rate(const VectorOps& ops, std::span<const float> memory, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
