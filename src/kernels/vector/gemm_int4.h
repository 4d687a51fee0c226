// A block of rows times some panels of INT4 weights.
//
// Threads: called by a worker with its own scratch.
#pragma once

#include <span>

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels::vector {

// Rows that go over a panel from end to end; of more rows a stretch of k is packed first.
bool int4_few_rows(const VectorOps& ops, int64_t rows);
// Floats of scratch that a block of `rows` rows needs.
int64_t int4_scratch_floats(const VectorOps& ops, int64_t rows);
void multiply_int4_block(const VectorOps& ops, const Int4Product& product,
                         std::span<float> scratch);

}  // namespace bulkhead::kernels::vector
