// BF16: the upper half of an IEEE binary32.
//
// Threads: pure functions. Error bound: round-to-nearest-even, relative error at most 2^-8 on
// normal numbers; NaN stays NaN (made quiet), infinities stay.
#pragma once

#include <bit>
#include <cstdint>

namespace bulkhead::quant {

using Bf16 = uint16_t;

inline float bf16_to_float(Bf16 bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline Bf16 float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Bf16>((bits >> 16) | 0x0040u);
  return static_cast<Bf16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace bulkhead::quant
