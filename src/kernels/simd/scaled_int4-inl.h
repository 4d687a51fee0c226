// INT4 codes times their scales as BF16, for tiles. Included after vec_avx512.h, by ISA translation
// units only.
#pragma once

#include "kernels/int4_panels.h"

namespace bulkhead::kernels {
namespace {

// To nearest even, in the upper halves; what stands below is left over.
inline Words16 rounded_bf16(Vec16 value) {
  const auto bits = reinterpret_cast<Words16>(value.v);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
inline void store_rounded_pairs(uint16_t* p, Vec16 even, Vec16 odd) {
  const Words16 pairs = rounded_bf16(even) >> 16 | (rounded_bf16(odd) & 0xffff0000u);
  _mm512_storeu_si512(p, reinterpret_cast<__m512i>(pairs));
}

void expand_scaled_int4(const uint8_t* codes, int64_t groups, uint16_t* tiles) {
  constexpr int64_t kLineCodes = 32;
  for (int64_t group = 0; group < groups; ++group) {
    const uint8_t* block = codes + group / 2 * kInt4BlockBytes;
    const uint8_t* lines = block + group % 2 * (kInt4ScaleOffset / 2);
    const Vec16 scale = load_scales(block + kInt4ScaleOffset, group % 2);
    for (int64_t line = 0; line < kInt4GroupK / 8; ++line) {
      const Octet16 octet = open_nibbles(load_nibbles(lines + line * 64));
      store_rounded_pairs(tiles, mul(nibble_float<0>(octet), scale),
                          mul(nibble_float<1>(octet), scale));
      store_rounded_pairs(tiles + kLineCodes, mul(nibble_float<2>(octet), scale),
                          mul(nibble_float<3>(octet), scale));
      store_rounded_pairs(tiles + 2 * kLineCodes, mul(nibble_float<4>(octet), scale),
                          mul(nibble_float<5>(octet), scale));
      store_rounded_pairs(tiles + 3 * kLineCodes, mul(nibble_float<6>(octet), scale),
                          mul(nibble_float<7>(octet), scale));
      tiles += 4 * kLineCodes;
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
