// LayerNorm with weight and bias (Ba et al., arXiv 1607.06450), one form for every path: it is met
// on one narrow vector per token and layer.
//
//   out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias
//
// Sums in double: the result is the rounded exact one but for the last place.
//
// Threads: one caller at a time, the one that owns the pool.
#pragma once

#include <cstdint>

#include "device/thread_pool.h"

namespace bulkhead::kernels {

struct LayerNormArgs {
  const float* x = nullptr;  // [rows][x_stride]
  int64_t x_stride = 0;
  float* out = nullptr;  // [rows][out_stride], may be x
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width]
  float eps = 1e-6f;
};

void layer_norm(const LayerNormArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
