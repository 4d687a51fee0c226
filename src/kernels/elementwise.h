// The row-wise operations between the matrix products. All in FP32; every row depends on itself
// only.
//
// Threads: one caller at a time, the one that owns the pool.
#pragma once

#include <cstdint>

#include "device/thread_pool.h"

namespace bulkhead::kernels {

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight. x and out may be the same.
// Sum of squares in a fixed lane order; bound: relative 2^-21 on each element.
struct RmsNormArgs {
  const float* x = nullptr;  // [rows][x_stride]
  int64_t x_stride = 0;
  float* out = nullptr;  // [rows][out_stride]
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
  const float* weight = nullptr;  // [width]
  float eps = 1e-6f;
};
using RmsNormFn = void (*)(const RmsNormArgs& args, device::ThreadPool& pool);

// Rotates the first 2*half dims of every head by half-split pairs (i, i + half):
//   (x_i, x_j) -> (x_i cos - x_j sin, x_j cos + x_i sin).
struct RopeArgs {
  float* x = nullptr;  // [rows][x_stride]: heads * head_dim values
  int64_t x_stride = 0;
  int64_t rows = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t half = 0;
  const float* cos = nullptr;  // [rows][half], scaled already
  const float* sin = nullptr;
};
using RopeFn = void (*)(const RopeArgs& args, device::ThreadPool& pool);

// out = silu(gate) * up, silu(x) = x / (1 + exp(-x)). exp's error at most 2 ulp.
struct SwigluArgs {
  const float* gate = nullptr;  // [rows][stride]
  const float* up = nullptr;    // [rows][stride]
  float* out = nullptr;         // [rows][out_stride], may be gate
  int64_t stride = 0;
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
};
using SwigluFn = void (*)(const SwigluArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
