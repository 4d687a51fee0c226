// exp(x) for x <= 0 in a form the compiler turns into vector code.
//
// Threads: pure. Bound: relative error at most 2^-21 for x in (-87, 0]; exactly 1 at 0; 0 from -87
// down (where the true value is under 1.7e-38). Monotone up to that error. NaN is not allowed.
#pragma once

#include <bit>
#include <cstdint>

namespace bulkhead::sampling {

inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0f;
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;  // 10 significant bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  // Masks instead of branches, which would keep the loop around this from being vectorised.
  const int32_t mask = -static_cast<int32_t>(x > kLowest);
  const float clamped = std::bit_cast<float>(std::bit_cast<int32_t>(x) & mask);
  const float shifted = clamped * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;  // in [-0.347, 0.347]
  // Taylor series; the first term left out is r^7 / 5040 < 2^-23 of the sum.
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const auto exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<int32_t>(p * scale) & mask);
}

}  // namespace bulkhead::sampling
