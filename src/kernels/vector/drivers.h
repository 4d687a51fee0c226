// Partition of every op over the thread pool, shared by the vector ISAs.
//
// Threads: as the ops' headers say. Invariant: how work is cut never shows in a result; the leaf
// functions of `ops` decide the bits.
#pragma once

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/indexer.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels::vector {

void gemm(const VectorOps& ops, const GemmArgs& args, device::ThreadPool& pool);
void gemm_group(const VectorOps& ops, std::span<const GemmArgs> group, device::ThreadPool& pool);
void attention(const VectorOps& ops, const AttentionArgs& args, device::ThreadPool& pool);
void select(const VectorOps& ops, const SelectArgs& args, device::ThreadPool& pool);
void rms_norm(const VectorOps& ops, const RmsNormArgs& args, device::ThreadPool& pool);
void rope(const VectorOps& ops, const RopeArgs& args, device::ThreadPool& pool);
void swiglu(const VectorOps& ops, const SwigluArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels::vector
