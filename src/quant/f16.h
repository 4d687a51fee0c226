// IEEE binary16 (F16) to float: how checkpoint readers widen half-precision tensors and scales.
//
// Threads: pure functions. Exact for every code; NaN keeps its payload and is made quiet, as the
// hardware conversion does.
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

}  // namespace bulkhead::quant
