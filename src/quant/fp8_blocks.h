// Blocks of weights, 128x128 or what is left of one at an edge, as e4m3 codes with one FP32 scale:
// value is about code * scale.
//
// Threads: pure functions; the result depends on the values and the rule alone, on every machine.
// Values are finite. Invariants:
// - The scale is finite and at least 2^-126, the smallest normal number; a block of zeros has
//   scale 1 and keeps the signs of its zeros.
// - Codes are the nearest, ties to even, of the FP32 quotient value / scale; saturating.
// - kAmax: the scale is amax / 448. A value is off by at most 2^-4 of itself from scale * 2^-6 on,
//   and by scale * 2^-10 below, plus FP32 rounding.
// - kSearch: the sum of squared errors is at most kAmax's. It looks at scales that make amax 244
//   to 512 (beyond 448 the largest values are clipped), and takes another scale only where it is
//   better by more than the rounding of its own sums (2^-12).
#pragma once

#include <cstdint>

#include "quant/fp8.h"
#include "quant/scale_rule.h"

namespace bulkhead::quant {

inline constexpr int64_t kFp8Block = 128;  // rows and columns

// `values` are `rows` lines of `columns`, `stride` apart; `codes` likewise. Both counts are
// positive.
float quantise_fp8_block(const float* values, int64_t stride, int64_t rows, int64_t columns,
                         ScaleRule rule, Fp8* codes, int64_t code_stride);

}  // namespace bulkhead::quant
