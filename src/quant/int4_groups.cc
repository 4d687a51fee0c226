#include "quant/int4_groups.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace bulkhead::quant {
namespace {

using Group = std::array<float, kInt4Group>;  // zeros behind the values that there are

// Added and taken away again, it leaves the nearest integer, ties to even, of what is below 2^22.
constexpr float kToInteger = 0x1.8p23f;
constexpr float kLow = -8.0f;
constexpr float kHigh = 7.0f;
constexpr Bf16 kSmallestScale = 0x0080;  // 2^-126
constexpr Bf16 kLargestScale = 0x7f7f;

// amax / scale that the search starts from.
constexpr std::array kTargets = {6.0f, 6.25f, 6.5f, 6.75f, 7.0f, 7.2f, 7.4f, 7.6f,
                                 7.8f, 8.0f,  8.2f, 8.4f,  8.6f, 8.8f, 9.0f};

// Comparisons by value, not std::clamp's references: so that a loop of these is a vector loop.
float nearest_code(float quotient) {
  const float above = quotient < kLow ? kLow : quotient;
  const float inside = above > kHigh ? kHigh : above;
  return (inside + kToInteger) - kToInteger;
}

Bf16 usable_scale(float scale) {
  return std::clamp(float_to_bf16(scale), kSmallestScale, kLargestScale);
}

// Loops below run over whole groups, one step a loop: the compiler makes vector loops of them.

float largest_magnitude(const Group& values) {
  Group sizes;
  for (size_t i = 0; i < kInt4Group; ++i) sizes[i] = std::fabs(values[i]);
  for (size_t half = kInt4Group / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      sizes[i] = sizes[i] < sizes[i + half] ? sizes[i + half] : sizes[i];
    }
  }
  return sizes[0];
}

template <typename T>
T sum_of(std::array<T, kInt4Group> values) {
  for (size_t i = 0; i < 16; ++i) values[i] += values[i + 16];
  for (size_t i = 0; i < 8; ++i) values[i] += values[i + 8];
  for (size_t i = 0; i < 4; ++i) values[i] += values[i + 4];
  return (values[0] + values[2]) + (values[1] + values[3]);
}

double squared_error(const Group& values, Bf16 scale) {
  const float wide = bf16_to_float(scale);
  Group codes;
  for (size_t i = 0; i < kInt4Group; ++i) codes[i] = nearest_code(values[i] / wide);
  std::array<double, kInt4Group> squares;
  for (size_t i = 0; i < kInt4Group; ++i) {
    const double error = double{values[i]} - double{codes[i]} * double{wide};
    squares[i] = error * error;
  }
  return sum_of(squares);
}

// The factor that makes `codes * factor` closest to `values`, for the codes that values have when
// they are multiplied by `gain`; `explained` is what it takes away from the sum of squares.
struct Refit {
  float factor = 1.0f;
  float explained = 0.0f;
};

Refit refit(const Group& values, float gain) {
  Group codes;
  Group products;
  Group squares;
  for (size_t i = 0; i < kInt4Group; ++i) codes[i] = nearest_code(values[i] * gain);
  for (size_t i = 0; i < kInt4Group; ++i) products[i] = values[i] * codes[i];
  for (size_t i = 0; i < kInt4Group; ++i) squares[i] = codes[i] * codes[i];
  const float product = sum_of(products);
  const float square = sum_of(squares);
  return {product / square, product * product / square};  // the largest value's code is not 0
}

Bf16 search_scale(const Group& values, float amax, Bf16 plain) {
  Group relative;  // to amax: no sum of squares overflows or vanishes
  for (size_t i = 0; i < kInt4Group; ++i) relative[i] = values[i] / amax;
  Refit best;
  for (const float target : kTargets) {
    const Refit found = refit(relative, target);
    if (found.explained > best.explained) best = found;
  }
  const Bf16 middle = usable_scale(best.factor * amax);
  Bf16 scale = plain;
  double least = squared_error(values, plain);
  for (const int32_t step : {0, -1, 1}) {
    const auto candidate =
        static_cast<Bf16>(std::clamp<int32_t>(middle + step, kSmallestScale, kLargestScale));
    const double error = squared_error(values, candidate);
    if (error < least) {
      least = error;
      scale = candidate;
    }
  }
  return scale;
}

}  // namespace

Bf16 quantise_int4_group(std::span<const float> values, ScaleRule rule, uint8_t* codes) {
  BH_CHECK(!values.empty() && values.size() <= kInt4Group, "a group is 1 to 32 values");
  Group group{};
  std::ranges::copy(values, group.begin());
  const float amax = largest_magnitude(group);
  if (amax == 0.0f) {
    std::fill_n(codes, values.size(), uint8_t{kInt4Zero});
    return float_to_bf16(1.0f);
  }
  Bf16 scale = usable_scale(amax / kHigh);
  if (rule == ScaleRule::kSearch) scale = search_scale(group, amax, scale);
  const float wide = bf16_to_float(scale);
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] =
        static_cast<uint8_t>(static_cast<int32_t>(nearest_code(group[i] / wide)) + kInt4Zero);
  }
  return scale;
}

}  // namespace bulkhead::quant
