#include "quant/fp8_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace bulkhead::quant {
namespace {

constexpr int64_t kLanes = 16;
using Lanes = std::array<float, kLanes>;

constexpr float kSmallestScale = 0x1p-126f;
constexpr double kWorthwhile = 1.0 - 0x1p-12;

// amax / scale of each candidate; the first is kAmax's. Steps of an eighth of an octave: a whole
// octave gives the same codes one exponent lower.
constexpr std::array kTargets = {448.0f, 464.0f, 480.0f, 512.0f, 411.0f, 377.0f,
                                 345.0f, 317.0f, 290.0f, 266.0f, 244.0f};

// `count` values, zeros behind them.
Lanes load(const float* values, int64_t count) {
  Lanes lanes{};
  if (count == kLanes) {
    std::copy_n(values, kLanes, lanes.begin());
  } else {
    std::copy_n(values, count, lanes.begin());
  }
  return lanes;
}

// The e4m3 number nearest to `size`, ties to even; at most 448. Not negative.
float nearest_e4m3(float size) {
  // A number 2^20 times size's power of two has 2^-3 of that power as its last mantissa bit.
  const float least = std::max(size, 0x1p-6f);
  const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(least) & 0x7f800000u);
  const float coarse = power * 0x1p20f;
  return std::min((size + coarse) - coarse, kFp8Max);
}

float largest_magnitude(const float* values, int64_t stride, int64_t rows, int64_t columns) {
  Lanes largest{};
  for (int64_t row = 0; row < rows; ++row) {
    const float* line = values + row * stride;
    for (int64_t column = 0; column < columns; column += kLanes) {
      const Lanes lanes = load(line + column, std::min(kLanes, columns - column));
      for (size_t i = 0; i < kLanes; ++i) largest[i] = std::max(largest[i], std::fabs(lanes[i]));
    }
  }
  return *std::ranges::max_element(largest);
}

// Adds to `sums` the squared errors of `relative` (values by amax) with the scale 1 / target.
void add_errors(const Lanes& relative, float target, Lanes& sums) {
  const float scale = 1.0f / target;
  for (size_t i = 0; i < kLanes; ++i) {
    const float size = std::fabs(relative[i]);
    const float error = nearest_e4m3(size * target) * scale - size;
    sums[i] += error * error;
  }
}

float search_target(const float* values, int64_t stride, int64_t rows, int64_t columns,
                    float amax) {
  std::array<double, kTargets.size()> totals{};
  for (int64_t row = 0; row < rows; ++row) {
    const float* line = values + row * stride;
    std::array<Lanes, kTargets.size()> sums{};
    for (int64_t column = 0; column < columns; column += kLanes) {
      Lanes relative = load(line + column, std::min(kLanes, columns - column));
      for (float& value : relative) value /= amax;
      for (size_t i = 0; i < kTargets.size(); ++i) add_errors(relative, kTargets[i], sums[i]);
    }
    for (size_t i = 0; i < kTargets.size(); ++i) {
      for (const float sum : sums[i]) totals[i] += double{sum};
    }
  }
  // None that would make the scale smaller than it may be.
  for (size_t i = 1; i < kTargets.size(); ++i) {
    if (amax / kTargets[i] < kSmallestScale) totals[i] = totals[0];
  }
  const auto best = std::ranges::min_element(totals);
  return *best < totals[0] * kWorthwhile ? kTargets[static_cast<size_t>(best - totals.begin())]
                                         : kTargets[0];
}

void encode(const float* values, int64_t count, float scale, Fp8* codes) {
  const Lanes lanes = load(values, count);
  std::array<Fp8, kLanes> found{};
  for (size_t i = 0; i < kLanes; ++i) {
    const float quotient = lanes[i] / scale;
    const uint32_t sign = (std::bit_cast<uint32_t>(quotient) >> 24) & 0x80u;
    const float size = nearest_e4m3(std::fabs(quotient));
    // Subnormal numbers are multiples of 2^-9, others have exponents 120 below those of a float.
    const uint32_t low = std::bit_cast<uint32_t>(size + 0x1p14f) - std::bit_cast<uint32_t>(0x1p14f);
    const uint32_t high = (std::bit_cast<uint32_t>(size) >> 20) - (120u << 3);
    found[i] = static_cast<Fp8>((size < 0x1p-6f ? low : high) | sign);
  }
  std::copy_n(found.begin(), count, codes);
}

}  // namespace

float quantise_fp8_block(const float* values, int64_t stride, int64_t rows, int64_t columns,
                         ScaleRule rule, Fp8* codes, int64_t code_stride) {
  BH_CHECK(rows > 0 && columns > 0, "a block has values");
  const float amax = largest_magnitude(values, stride, rows, columns);
  float scale = 1.0f;
  if (amax > 0.0f) {
    scale = amax / kTargets[0];
    if (scale < kSmallestScale) {
      scale = kSmallestScale;
    } else if (rule == ScaleRule::kSearch) {
      scale = amax / search_target(values, stride, rows, columns, amax);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float* line = values + row * stride;
    for (int64_t column = 0; column < columns; column += kLanes) {
      encode(line + column, std::min(kLanes, columns - column), scale,
             codes + row * code_stride + column);
    }
  }
  return scale;
}

}  // namespace bulkhead::quant
