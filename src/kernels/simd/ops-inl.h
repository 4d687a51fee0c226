// The leaf functions of one ISA as a table. Included after a vec_*.h, by the ISA translation units
// of this folder only.
#pragma once

#include "kernels/simd/vector_ops.h"
// The order matters: the words first, then what is written in them.
#include "kernels/simd/math-inl.h"
#include "kernels/simd/multiply-inl.h"
#include "kernels/simd/peak-inl.h"
#include "kernels/simd/rowwise-inl.h"
#include "kernels/simd/turn-inl.h"
// Formats of the micro-kernel.
#include "kernels/simd/fp8-inl.h"
#include "kernels/simd/multiply_int4-inl.h"
#include "kernels/simd/multiply_int8-inl.h"

namespace bulkhead::kernels {
namespace {

constexpr VectorOps table_of_ops() {
  return {.panels_at_once = panels_at_once,
          .tile_rows = kMaxTileRows,
          .multiply = multiply<Bf16Lines>,
          .multiply_fp8 = multiply<Fp8Lines>,
          .fp8_lift = kFp8Lift,
          .expand_fp8 = expand_fp8,
          .int4_panels_at_once = int4_panels_at_once,
          .int4_tile_rows = kMaxCodeTileRows,
          .multiply_int4 = multiply_int4,
          .quantise_row = quantise_row,
          .multiply_int8 = multiply_int8,
          .turn_panel = turn_panel,
          .turn_panel_fp8 = turn_panel_fp8,
          .softmax = softmax,
          .merge = merge,
          .divide = divide,
          .scale = scale,
          .scale_each = scale_each,
          .rms_norm = rms_norm,
          .rope = rope,
          .swiglu = swiglu,
          .exponential = exponential_of,
          .fma_rounds = fma_rounds,
          .read_floats = read_floats};
}

}  // namespace
}  // namespace bulkhead::kernels
