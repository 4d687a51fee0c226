// The leaf functions that one ISA's translation unit hands to the drivers: plain numbers in and
// out.
//
// Threads: pure functions on the caller's memory. Everything that partitions work, touches the
// thread pool or the standard library stays in the drivers, which are compiled without ISA flags;
// so no inline function of another header can leak wide instructions into the program
// (one-definition rule).
#pragma once

#include <cstdint>

namespace bulkhead::kernels {

// c[r][16 p + i] = start[r][16 p + i] + sum over k in [k_begin, k_end) of a[r][k] * w(p, k, i), one
// fused multiply-add per k, k ascending.
struct PanelProduct {
  const float* a = nullptr;  // [rows][a_stride], indexed by the absolute k
  int64_t a_stride = 0;
  int64_t rows = 0;
  // Panel p's weights for k in [s * run_k, (s + 1) * run_k) start at runs[s * panels + p] or, where
  // runs follow each other at equal distances, at runs[p] + s * run_stride. Their order is that of
  // packed_weights.h; run_k is even, and a multiple of 4 for FP8.
  const void* const* runs = nullptr;
  int64_t run_stride = 0;  // bytes; 0: every run has its own entry
  // Null, or found like runs: an address whose lines are asked for while the run is multiplied:
  // what comes next, where that does not follow in memory.
  const void* const* ahead = nullptr;
  // Null, or found like runs: 16 FP32 factors, one for each column. Then every run (what of it is
  // in [k_begin, k_end)) is a scale group: its sum starts from zero, and c = fma(sum, factor, c)
  // follows, c starting from start.
  const void* const* scales = nullptr;
  int64_t panels = 0;
  int64_t run_k = 0;
  int64_t k_begin = 0;
  int64_t k_end = 0;
  const float* start = nullptr;  // null: zero; may be c
  int64_t start_stride = 0;      // 0: the same row for all (a bias)
  float* c = nullptr;            // [rows][c_stride], all 16 columns of every panel are written
  int64_t c_stride = 0;
};

// c[r][16 p + i] = start, then for each group of 32 k, ascending:
//   c = fma(sum of a[r][k] * q(p, k, i), scale(p, group, i), c),
// the sum being one fused multiply-add per k from 0, k ascending.
struct Int4Product {
  const float* a = nullptr;  // [rows][a_stride]
  int64_t a_stride = 0;
  int64_t rows = 0;
  const uint8_t* const* codes = nullptr;  // of each panel, blocks of int4_panels.h
  int64_t panels = 0;
  int64_t k = 0;
  const float* start = nullptr;  // as PanelProduct
  int64_t start_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

// c = start, then for each group of 32 k, ascending: c = fma(sum, scale(p, group, i) * scale(r,
// group), c), the sum being exact in integers.
struct Int8Product {
  const int8_t* a = nullptr;      // [rows][groups * 32], as quantise_row wrote them
  const float* scales = nullptr;  // [rows][groups]
  const int32_t* offsets = nullptr;
  int64_t groups = 0;
  int64_t rows = 0;
  const uint8_t* const* codes = nullptr;  // of each panel, blocks of int4_panels.h
  int64_t panels = 0;
  const float* start = nullptr;  // as PanelProduct
  int64_t start_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

// As Int4Product, from codes that expand_int4 made BF16: for many rows.
struct ScaledProduct {
  const float* a = nullptr;
  int64_t a_stride = 0;
  int64_t rows = 0;
  const uint8_t* lines = nullptr;  // k-pairs of panel p at lines + p * line_stride
  int64_t line_stride = 0;
  const float* scales = nullptr;  // 16 of each group of panel p at scales + p * scale_stride
  int64_t scale_stride = 0;
  int64_t group_k = 0;  // even
  int64_t panels = 0;
  int64_t k = 0;
  const float* start = nullptr;
  int64_t start_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

// One query row's state of the softmax over cuts.
struct SoftmaxState {
  float max = 0.0f;
  float sum = 0.0f;
};

inline constexpr int64_t kFmaRoundFlops = 6 * 16 * 2;

struct VectorOps {
  // Panels that multiply() works on side by side for this many rows; the drivers hand out
  // multiples.
  int64_t (*panels_at_once)(int64_t rows);
  int64_t tile_rows;  // rows of the tallest tile: up to here multiply() reads the weights once
  void (*multiply)(const PanelProduct& product);  // BF16
  // The same over FP8: a code is read as 2^-56 times its value (fp8_panels.h) where its factor is
  // `fp8_lift` times what it stands for.
  void (*multiply_fp8)(const PanelProduct& product);
  float fp8_lift;
  // `lines` lines of codes as twice as many lines of BF16 that stand for the same; as much is
  // asked for from `ahead` on.
  void (*expand_fp8)(const void* codes, int64_t lines, const void* ahead, void* out);
  // Panels side by side for this many rows, rows of the tallest tile, and the product.
  int64_t (*int4_panels_at_once)(int64_t rows);
  int64_t int4_tile_rows;
  void (*multiply_int4)(const Int4Product& product);
  // Null where multiply_int4 serves any number of rows. `groups` groups of one panel (the first one
  // even) as BF16 lines, unscaled, and as FP32 scales; meanwhile as many bytes are asked for at
  // `ahead`.
  void (*expand_int4)(const uint8_t* codes, int64_t groups, const uint8_t* ahead, uint8_t* lines,
                      float* scales) = nullptr;
  void (*multiply_scaled)(const ScaledProduct& product) = nullptr;
  // A row of k floats to bytes (gemm.h says how): groups of 32 in the order of a line's nibbles,
  // even ones of eight first; zero beyond k. For each group also its scale and -8 times the sum of
  // its codes.
  void (*quantise_row)(const float* x, int64_t k, int8_t* codes, float* scales, int32_t* offsets);
  void (*multiply_int8)(const Int8Product& product);
  // One panel of 16 keys (attention.h) as the values of the same tokens: the first 16 * dim_panels
  // dims of each, 16 dims of the 16 tokens at values + panel * value_stride, in token pairs.
  void (*turn_panel)(const uint16_t* keys, int64_t dim_panels, uint16_t* values,
                     int64_t value_stride);
  // The same of FP8, four tokens to a line; value_stride in bytes.
  void (*turn_panel_fp8)(const uint8_t* keys, int64_t dim_panels, uint8_t* values,
                         int64_t value_stride);
  // scores[i] = exp(scores[i] - max), returns max and the sum; count >= 1.
  SoftmaxState (*softmax)(float* scores, int64_t count);
  // Merges a later cut (its state and unnormalised output) into an earlier one.
  void (*merge)(SoftmaxState* state, float* out, const SoftmaxState* cut, const float* cut_out,
                int64_t dims);
  // out[i] = x[i] / divisor.
  void (*divide)(const float* x, float divisor, float* out, int64_t count);
  void (*scale)(const float* x, float factor, float* out, int64_t count);
  // x[i] *= factors[i].
  void (*scale_each)(float* x, const float* factors, int64_t count);
  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, int64_t width);
  void (*rope)(float* x, const float* cos, const float* sin, int64_t half);
  void (*swiglu)(const float* gate, const float* up, float* out, int64_t width);
  // out[i] = exp(x[i]); for tests of the stated bound.
  void (*exponential)(const float* x, float* out, int64_t count);
  // For the benches: kFmaRoundFlops per round and nothing else; one pass of reads (a multiple of
  // 256).
  float (*fma_rounds)(int64_t rounds);
  float (*read_floats)(const float* p, int64_t count);
};

extern const VectorOps kAvx2Ops;
extern const VectorOps kAvx512Ops;
// The same bits. Codes of FP8 by tables, for processors that are slow on subnormal floats; by
// shifts, which is faster on the others.
extern const VectorOps kAvx512VbmiOps;
extern const VectorOps kAvx512VnniOps;

}  // namespace bulkhead::kernels
