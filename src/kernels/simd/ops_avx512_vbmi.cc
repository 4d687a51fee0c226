// AVX-512 with byte products and byte permutes (VBMI): the same source, FP8 by tables. Compiled
// with this ISA's flags; includes nothing but the vocabulary and its users.
#include "kernels/simd/vec_avx512.h"
// After the words it is written in.
#include "kernels/simd/ops-inl.h"
// What byte products are good for.
#include "kernels/simd/byte_row-inl.h"

namespace bulkhead::kernels {

constinit const VectorOps kAvx512VbmiOps = with_byte_rows(table_of_ops());

}  // namespace bulkhead::kernels
