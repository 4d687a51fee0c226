// A product over FP8 lines for any number of rows: few rows read the codes as they stand, for many
// a few panels at a time are written out as BF16. The bits are the same.
//
// Threads: pure functions on the caller's memory.
#pragma once

#include <cstddef>

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels::vector {

// Panels that are written out side by side, and their bytes.
inline constexpr int64_t kExpandedPanels = 2;
int64_t expanded_bytes(int64_t k);

// `product` has an entry for each run (no run_stride), and at most kExpandedRuns runs. `expanded`
// has room for expanded_bytes(k_end rounded up to whole runs).
inline constexpr int64_t kExpandedRuns = 16;
void multiply_fp8(const VectorOps& ops, const PanelProduct& product, std::byte* expanded);

}  // namespace bulkhead::kernels::vector
