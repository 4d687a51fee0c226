// The reference form of every kernel: plain scalar code that states the arithmetic.
//
// Threads: as the ops' headers say. It is what the vector forms are tested against and what runs on
// a processor without AVX2; nobody should expect speed from it.
#pragma once

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/indexer.h"

namespace bulkhead::kernels::ref {

void gemm(const GemmArgs& args, device::ThreadPool& pool);
void gemm_group(std::span<const GemmArgs> group, device::ThreadPool& pool);
void attention(const AttentionArgs& args, device::ThreadPool& pool);
void select(const SelectArgs& args, device::ThreadPool& pool);
void rms_norm(const RmsNormArgs& args, device::ThreadPool& pool);
void rope(const RopeArgs& args, device::ThreadPool& pool);
void swiglu(const SwigluArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels::ref
