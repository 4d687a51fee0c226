// Groups of up to 32 weights as four-bit codes q + 8 (q from -8 to 7) with one BF16 scale: value
// is about q * scale.
//
// Threads: pure functions; the result depends on the values and the rule alone, on every machine.
// Values are finite. Invariants:
// - The scale is finite and at least 2^-126, the smallest normal number; a group of zeros has scale
//   1 and codes 8.
// - Codes are the nearest integers, ties to even, of the FP32 quotient value / scale, brought into
//   -8..7.
// - kAmax: the scale is amax / 7 rounded to BF16, so that codes are -7..7, and no value is off by
//   more than 0.5001 of the scale (amax / 14, within 0.5 %).
// - kSearch: the sum of squared errors, in double, is at most kAmax's. It looks at scales of amax/6
//   to amax/9, the lower ones clipping what is beyond, and of the best one at the neighbours of its
//   least-squares refit; where the largest value is negative that includes amax / 8 with code -8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/bf16.h"
#include "quant/scale_rule.h"

namespace bulkhead::quant {

inline constexpr size_t kInt4Group = 32;
inline constexpr int32_t kInt4Zero = 8;  // what a code is above its integer

// `values` are 1 to 32; as many `codes` are written.
Bf16 quantise_int4_group(std::span<const float> values, ScaleRule rule, uint8_t* codes);

}  // namespace bulkhead::quant
