// FP8 e4m3 (one sign, four exponent, three mantissa bits, no infinity) and the power-of-two scale
// e8m0: weights of block-quantised checkpoints and their scales.
//
// Threads: pure functions. Decoding is exact. Encoding rounds to nearest, ties to even, and
// saturates: what is beyond +-448, infinities included, becomes +-448; NaN stays NaN. Relative
// error at most 2^-4 from 2^-6 on, absolute error at most 2^-10 below.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace bulkhead::quant {

using Fp8 = uint8_t;

inline constexpr float kFp8Max = 448.0f;

inline float e4m3_to_float(Fp8 code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7fu) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude < 8) {
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

inline Fp8 float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint32_t>((bits >> 24) & 0x80u);
  const float size = std::bit_cast<float>(bits & 0x7fffffffu);
  if (std::isnan(value)) return static_cast<Fp8>(sign | 0x7fu);
  if (size >= kFp8Max) return static_cast<Fp8>(sign | 0x7eu);
  if (size < 0x1p-6f) {
    // The sum's last mantissa bit stands for 2^-9: the addition rounds as the format does.
    const uint32_t code =
        std::bit_cast<uint32_t>(size + 0x1p14f) - std::bit_cast<uint32_t>(0x1p14f);
    return static_cast<Fp8>(sign | code);
  }
  const uint32_t magnitude = std::bit_cast<uint32_t>(size);
  const uint32_t rounded = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
  return static_cast<Fp8>(sign | (rounded - (120u << 3)));
}

// 2^(code - 127); 255 is NaN.
constexpr float e8m0_to_float(uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

}  // namespace bulkhead::quant
