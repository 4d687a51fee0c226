// Compiled with this ISA's flags; includes nothing but the vocabulary and its users.
#include "kernels/simd/vec_avx2.h"
// After the words they are written in.
#include "kernels/simd/ops-inl.h"
// Of INT4, what few registers ask for.
#include "kernels/simd/multiply_scaled-inl.h"

namespace bulkhead::kernels {
namespace {

constexpr VectorOps with_expansion(VectorOps ops) {
  ops.expand_int4 = expand_int4;
  ops.multiply_scaled = multiply_scaled;
  return ops;
}

}  // namespace

constinit const VectorOps kAvx2Ops = with_expansion(table_of_ops());

}  // namespace bulkhead::kernels
