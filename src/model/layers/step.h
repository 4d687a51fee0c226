// The rows of one forward pass, and the machine it runs on, as every part of a decoder sees them.
//
// Threads: plain values of the step thread.
// Invariant: rows lie slice by slice, [0, rows); everything indexed by row has that order.
#pragma once

#include <cstdint>
#include <span>

#include "device/thread_pool.h"
#include "kernels/kernel_set.h"

namespace bulkhead::model {

struct Step {
  int64_t rows = 0;
  const int32_t* positions = nullptr;               // [rows]
  const kernels::AttentionSlice* slices = nullptr;  // [slice_count]
  int32_t slice_count = 0;
  const float* cos = nullptr;  // [rows][rotary_dim / 2], scaled
  const float* sin = nullptr;
};

struct Machine {
  kernels::KernelSet kernels;
  device::ThreadPool& pool;
  // Of every product with packed weights, which is what a recipe is about; the router is none.
  kernels::Activations activations = kernels::Activations::kFp32;

  void multiply(kernels::GemmArgs args) const {
    args.activations = activations;
    kernels.gemm(args, pool);
  }
  void multiply_group(std::span<kernels::GemmArgs> group) const {
    for (kernels::GemmArgs& args : group) args.activations = activations;
    kernels.gemm_group(group, pool);
  }
};

}  // namespace bulkhead::model
