// Row-wise sums into the residual stream, on the pool.
//
// Threads: the step thread.
#pragma once

#include <cstdint>

#include "device/thread_pool.h"

namespace bulkhead::model {

// Adds a bias [width] to every row, ahead of the product that accumulates into it.
inline void add_bias(device::ThreadPool& pool, int64_t rows, int64_t width, const float* bias,
                     float* residual) {
  pool.run(static_cast<size_t>(rows), [&](size_t row, unsigned) {
    float* out = residual + static_cast<int64_t>(row) * width;
    for (int64_t i = 0; i < width; ++i) out[i] += bias[i];
  });
}

}  // namespace bulkhead::model
