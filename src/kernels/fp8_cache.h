// How a token's values become e4m3 codes and one power of two.
//
// The power is the least one, of those from 2^-60 to 2^63, that brings the component's greatest
// magnitude to at most 448; so nothing saturates, and a component of zeros has the least power.
// Where a value is NaN or of a magnitude above 448 * 2^63, the component is NaN: power code 255,
// all codes 0. No code is NaN.
//
// Error: |value - code * power| <= 2^-4 |value| from 2^-6 * power on, 2^-10 * power below; power is
// at most greatest magnitude / 224 (but for the least one).
//
// Threads: pure functions. Compiled for the base instruction set, four lanes at a time: the same
// code for every path.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/kv_layout.h"
#include "quant/fp8.h"

namespace bulkhead::kernels {

inline constexpr uint32_t kLeastPower = 127 - 60;
inline constexpr uint32_t kGreatestPower = 127 + 63;
inline constexpr uint8_t kNanPower = 255;

// `bits` are those of the greatest magnitude (as integers: NaN is above all).
inline uint8_t power_code(uint32_t bits) {
  if (bits > std::bit_cast<uint32_t>(448.0f * 0x1p63f)) return kNanPower;
  // The exponent, one more where the mantissa is above that of 448 = 1.75 * 2^8, less 8.
  const uint32_t exponent = (bits + 0x1fffffu) >> 23;
  return static_cast<uint8_t>(exponent < kLeastPower + 8 ? kLeastPower : exponent - 8);
}
// What values are multiplied by: the power's inverse. 0 for NaN.
inline float inverse_power(uint8_t code) {
  return code == kNanPower ? 0.0f : std::bit_cast<float>((254u - code) << 23);
}

// quant::e8m0_to_float of every code.
inline constexpr std::array<float, 256> kPowers = [] {
  std::array<float, 256> powers{};
  for (size_t code = 0; code < 256; ++code) {
    powers[code] = quant::e8m0_to_float(static_cast<uint8_t>(code));
  }
  return powers;
}();

// The powers of 16 codes, times `factor`: a code is the exponent of a float, but for the least one
// (2^-127, a subnormal float) and NaN, whose mantissas begin with 1. In words of SSE2: of the
// compilers' own, g++ 12 makes these shuffles byte by byte.
inline void load_powers16(const uint8_t* codes, float factor, float* out) {
  const __m128i zero = _mm_setzero_si128();
  const auto quarter = [&](__m128i code, float* to) {
    // 0 for 0 and for 255.
    const __m128i inner =
        _mm_and_si128(_mm_add_epi32(code, _mm_set1_epi32(1)), _mm_set1_epi32(0xfe));
    const __m128i lead = _mm_and_si128(_mm_cmpeq_epi32(inner, zero), _mm_set1_epi32(0x400000));
    const __m128i bits = _mm_or_si128(_mm_slli_epi32(code, 23), lead);
    _mm_storeu_ps(to, _mm_mul_ps(_mm_castsi128_ps(bits), _mm_set1_ps(factor)));
  };
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  const __m128i low = _mm_unpacklo_epi8(bytes, zero);
  const __m128i high = _mm_unpackhi_epi8(bytes, zero);
  quarter(_mm_unpacklo_epi16(low, zero), out);
  quarter(_mm_unpackhi_epi16(low, zero), out + 4);
  quarter(_mm_unpacklo_epi16(high, zero), out + 8);
  quarter(_mm_unpackhi_epi16(high, zero), out + 12);
}

// The powers of `count` neighbouring positions from `begin` on, times `factor`. Runs once for each
// cut and kv head: page by page, so that it divides once a page.
inline void load_powers(const KvLayerView& kv, const int32_t* pages, int32_t component,
                        int32_t begin, int32_t count, float factor, float* out) {
  int32_t page = begin / kv.page_tokens;
  int32_t slot = begin % kv.page_tokens;
  for (int32_t done = 0; done < count; ++page, slot = 0) {
    const int32_t here = std::min(count - done, kv.page_tokens - slot);
    const uint8_t* codes = scale_codes(kv, pages[page], component) + slot;
    int32_t i = 0;
    for (; i + 16 <= here; i += 16) load_powers16(codes + i, factor, out + done + i);
    for (; i < here; ++i) out[done + i] = kPowers[codes[i]] * factor;
    done += here;
  }
}

// Four lanes.
using Float4 = float __attribute__((vector_size(16)));
using Word4 = uint32_t __attribute__((vector_size(16)));

inline Word4 words_of(Float4 x) { return std::bit_cast<Word4>(x); }
inline Float4 floats_of(Word4 x) { return std::bit_cast<Float4>(x); }
inline Word4 every(uint32_t x) { return Word4{x, x, x, x}; }

inline Word4 magnitude_bits(Float4 x) { return words_of(x) & every(0x7fffffffu); }
// Of magnitudes' bits, which are below 2^31.
inline Word4 greater(Word4 a, Word4 b) {
  using Signed4 = int32_t __attribute__((vector_size(16)));
  const auto mask = std::bit_cast<Word4>(std::bit_cast<Signed4>(a) > std::bit_cast<Signed4>(b));
  return (a & mask) | (b & ~mask);
}
inline uint32_t greatest_lane(Word4 a) {
  uint32_t most = a[0];
  for (int i = 1; i < 4; ++i) most = a[i] > most ? a[i] : most;
  return most;
}

// quant::float_to_e4m3 of x * factor, for results within +-448 (others give some code); codes in
// the lanes' lowest bytes.
// `keep` is all ones, or zero where the code is to be 0.
inline Word4 encode4(Float4 x, Float4 factor, Word4 keep) {
  using Signed4 = int32_t __attribute__((vector_size(16)));
  const Word4 bits = words_of(x * factor) & keep;
  const Word4 size = bits & every(0x7fffffffu);
  const Word4 normal = (size + every(0x7ffffu) + ((size >> 20) & every(1))) >> 20;
  // The sum's last mantissa bit stands for 2^-9: the addition rounds as the format does.
  const Float4 shift = {0x1p14f, 0x1p14f, 0x1p14f, 0x1p14f};
  const Word4 subnormal = words_of(floats_of(size) + shift) - words_of(shift);
  const auto small = std::bit_cast<Word4>(std::bit_cast<Signed4>(size) <
                                          std::bit_cast<Signed4>(every(0x3c800000u)));
  const Word4 code = (subnormal & small) | ((normal - every(120u << 3)) & ~small);
  return (code & every(0x7fu)) | ((bits >> 24) & every(0x80u));
}

// Codes of four k, a column a lane, as a line of fp8_panels.h has them.
inline Word4 join4(Word4 k0, Word4 k1, Word4 k2, Word4 k3) {
  return k2 | (k0 << 8) | (k3 << 16) | (k1 << 24);
}

}  // namespace bulkhead::kernels
