// What the driver of products over FP32 activations (gemm_vector.cc) needs to know of a weight
// format: where its panels and scale groups stand, and the leaf functions that read them. INT4 has
// a driver of its own (gemm_int4.h), bytes and tiles choose by format themselves.
//
// Threads: plain values.
#pragma once

#include "base/check.h"
#include "kernels/fp8_panels.h"
#include "kernels/packed_weights.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels::vector {

struct WeightPath {
  // Multiplies the codes as they stand in the panels.
  void (*multiply)(const PanelProduct& product) = nullptr;
  // Null: multiply() serves any number of rows. Else a stretch of k of a few panels is written out
  // as BF16 for products of more than `few_rows` rows: a group's lines, of `k` k.
  void (*expand)(const void* lines, int64_t k, const VectorOps& ops, const void* ahead,
                 void* out) = nullptr;
  int64_t few_rows = 0;
  // The blocks of gemm_int4.h: nothing else here holds but panel_bytes.
  bool is_int4 = false;
  // Factors are lifted by this much before they meet a code.
  float lift = 1.0f;
  int64_t panel_bytes = 0;
  int64_t group_k = 0;  // 0: no scales, the panel is one run
  int64_t group_bytes = 0;
  int64_t group_lines_at = 0;  // bytes from a group's start (its scales) to its lines
};

inline void expand_fp8_group(const void* lines, int64_t k, const VectorOps& ops, const void* ahead,
                             void* out) {
  ops.expand_fp8(lines, fp8_lines(k), ahead, out);
}

inline WeightPath weight_path(const VectorOps& ops, const PackedWeights& w) {
  WeightPath path;
  path.panel_bytes = packed_panel_bytes(w.format, w.k);
  switch (w.format) {
    case WeightFormat::kBf16:
      path.multiply = ops.multiply;
      return path;
    case WeightFormat::kFp8:
      path.multiply = ops.multiply_fp8;
      path.expand = expand_fp8_group;
      path.few_rows = 2 * ops.tile_rows;
      path.lift = ops.fp8_lift;
      path.group_k = kFp8GroupK;
      path.group_bytes = kFp8GroupBytes;
      path.group_lines_at = kLineBytes;
      return path;
    case WeightFormat::kInt4:
      path.is_int4 = true;
      return path;
  }
  BH_CHECK(false, "a weight format that is multiplied");
  return path;
}

}  // namespace bulkhead::kernels::vector
