// IEEE binary16 (F16): how checkpoint readers widen half-precision tensors and scales, and round
// products to the type their scales have.
//
// Threads: pure functions. Widening is exact for every code; NaN keeps its payload and is made
// quiet, as the hardware conversion does. Rounding is to nearest, ties to even; what is too large
// becomes infinite.
#pragma once

#include <bit>
#include <cstdint>

namespace bulkhead::quant {

using F16 = uint16_t;

inline float f16_to_float(F16 bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24, an exact product of two floats.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | quiet);
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

inline F16 float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<F16>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<F16>(sign | 0x7c00u);  // rounds above 65504
  if (magnitude < 0x38800000u) {                                          // below 2^-14
    // The sum's last mantissa bit stands for 2^-24: the addition rounds as the format does.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<F16>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
  }
  const uint32_t rounded = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  return static_cast<F16>(sign | (rounded - (112u << 10)));
}

}  // namespace bulkhead::quant
