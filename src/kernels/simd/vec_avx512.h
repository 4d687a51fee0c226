// The vocabulary on AVX-512: 16 floats in one register.
//
// Included only by simd/ops_avx512*.cc and amx/ops_amx.cc. See vec_avx2.h for what each word means;
// the two agree bit by bit.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace bulkhead::kernels {
namespace {

struct Vec16 {
  __m512 v;
};
struct Pairs16 {
  __m512i v;
};

// The accumulators of the widest tile (12 rows x 2 panels) fill 24 of 32 registers.
constexpr int kMaxTileRows = 12;
template <template <int...> class Table>
using ForTileRows = Table<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>;
constexpr int tile_panels(int rows) { return rows == 1 ? 8 : rows <= 4 ? 4 : 2; }
constexpr int kReloadRows = kMaxTileRows + 1;
constexpr int kCodesByPanelRows = 0;

inline Vec16 zero16() { return {_mm512_setzero_ps()}; }
inline Vec16 broadcast16(float x) { return {_mm512_set1_ps(x)}; }
inline Vec16 load16(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store16(float* p, Vec16 a) { _mm512_storeu_ps(p, a.v); }
inline Vec16 add(Vec16 a, Vec16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec16 sub(Vec16 a, Vec16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec16 mul(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec16 div(Vec16 a, Vec16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
template <int kPanels>
[[gnu::always_inline]] inline void fma_row(Vec16 (&acc)[kPanels], const float& a,
                                           const Vec16 (&w)[kPanels]) {
  const __m512 x = _mm512_set1_ps(a);
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) acc[p].v = _mm512_fmadd_ps(x, w[p].v, acc[p].v);
}
[[gnu::always_inline]] inline void fma_one(Vec16& acc, const float& a, Vec16 w) {
  acc.v = _mm512_fmadd_ps(_mm512_set1_ps(a), w.v, acc.v);
}
inline Vec16 fms(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
inline Vec16 max(Vec16 a, Vec16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec16 min(Vec16 a, Vec16 b) { return {_mm512_min_ps(a.v, b.v)}; }

inline Pairs16 load_pairs(const uint16_t* p) { return {_mm512_loadu_si512(p)}; }
inline Vec16 widen_even(Pairs16 p) { return {_mm512_castsi512_ps(_mm512_slli_epi32(p.v, 16))}; }
inline Vec16 widen_odd(Pairs16 p) {
  return {
      _mm512_castsi512_ps(_mm512_and_si512(p.v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}

struct Codes16 {
  __m512i v;
};
inline Codes16 load_codes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline void store_pairs(uint8_t* p, Pairs16 pairs) { _mm512_storeu_si512(p, pairs.v); }
#ifdef __AVX512VBMI__
// The bytes of 2^-56 times the value of each magnitude, as BF16: no subnormal floats, which are
// slow on some processors.
struct Fp8Bytes {
  alignas(64) uint8_t upper[128] = {};
  alignas(64) uint8_t lower[128] = {};
  constexpr Fp8Bytes() {
    for (int code = 0; code < 128; ++code) {
      // Mantissa with its leading bit at 8, exponent of that bit.
      int mantissa = code < 8 ? code : 8 + code % 8;
      int exponent = (code < 8 ? 1 : code / 8) - 7;
      if (mantissa == 0) continue;
      for (; mantissa < 8; mantissa *= 2) --exponent;
      const int bits = (exponent - 56 + 127) * 128 + (mantissa - 8) * 16;
      upper[code] = static_cast<uint8_t>(bits / 256);
      lower[code] = static_cast<uint8_t>(bits % 256);
    }
  }
};
constexpr Fp8Bytes kFp8Bytes;
constexpr float kFp8Lift = 1.0f;
inline __m512i fp8_upper(Codes16 c) {
  const __m512i upper = _mm512_permutex2var_epi8(_mm512_load_si512(kFp8Bytes.upper), c.v,
                                                 _mm512_load_si512(kFp8Bytes.upper + 64));
  // upper | (code & 0x80)
  return _mm512_ternarylogic_epi32(upper, c.v, _mm512_set1_epi8(-128), 0xf8);
}
inline __m512i fp8_lower(Codes16 c) {
  return _mm512_permutex2var_epi8(_mm512_load_si512(kFp8Bytes.lower), c.v,
                                  _mm512_load_si512(kFp8Bytes.lower + 64));
}
// The upper bytes of `a` beside the lower bytes of `b`.
inline Pairs16 join_bytes(__m512i a, __m512i b) {
  return {_mm512_ternarylogic_epi32(a, b, _mm512_set1_epi16(-256), 0xe4)};
}
inline Pairs16 first_pairs(Codes16 c) {
  return join_bytes(fp8_upper(c), _mm512_srli_epi16(fp8_lower(c), 8));
}
inline Pairs16 second_pairs(Codes16 c) {
  return join_bytes(_mm512_slli_epi16(fp8_upper(c), 8), fp8_lower(c));
}
template <int kIndex>
[[gnu::always_inline]] inline Vec16 code_floats(Codes16 c) {
  const Pairs16 pairs = kIndex < 2 ? first_pairs(c) : second_pairs(c);
  return kIndex % 2 == 0 ? widen_even(pairs) : widen_odd(pairs);
}
#else
constexpr float kFp8Lift = 0x1p64f;
inline Pairs16 first_pairs(Codes16 c) {
  return {_mm512_and_si512(_mm512_srai_epi16(c.v, 4),
                           _mm512_set1_epi32(static_cast<int>(0x87f087f0u)))};
}
inline Pairs16 second_pairs(Codes16 c) { return first_pairs({_mm512_slli_epi16(c.v, 8)}); }
template <int kIndex>
[[gnu::always_inline]] inline Vec16 code_floats(Codes16 c) {
  __m512i code = c.v;
  if constexpr (kIndex >= 2) code = _mm512_slli_epi16(code, 8);
  code = _mm512_srai_epi16(code, 4);
  if constexpr (kIndex % 2 == 0) code = _mm512_slli_epi32(code, 16);
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0x87f00000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(code, mask))};
}
#endif

struct Nibbles16 {
  __m512i v;
};
constexpr int kCodePanels = 4;
constexpr int kMaxCodeTileRows = 8;
template <template <int...> class Table>
using ForCodeTileRows = Table<1, 2, 3, 4, 5, 6, 7, 8>;
constexpr int code_tile_panels(int rows) {
  return rows == 1 ? 8 : rows == 2 ? 4 : rows == 3 ? 2 : 1;
}

inline Nibbles16 load_nibbles(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
// In the compiler's own words: g++ 12 fails on the intrinsic here, which starts from an undefined
// register.
using Words16 = uint32_t __attribute__((vector_size(64)));
template <int kBits>
[[gnu::always_inline]] inline __m512i shifted(__m512i c) {
  return reinterpret_cast<__m512i>(reinterpret_cast<Words16>(c) >> kBits);
}
inline Nibbles16 next_nibbles(Nibbles16 c) { return {shifted<4>(c.v)}; }

// A table of all 16 values: a permutation of floats reads the lowest four bits of a dword, one of
// words the lowest five bits of its upper half as well. So two codes of eight are looked up from
// one register, and eight codes take three shifts.
struct Octet16 {
  __m512i by[4];  // the dwords, shifted by 4 bits each
};
inline Octet16 open_nibbles(Nibbles16 c) {
  return {{c.v, shifted<4>(c.v), shifted<8>(c.v), shifted<12>(c.v)}};
}
// The upper words of the values, whatever the fifth bit, which is the next code's.
alignas(64) constexpr uint16_t kNibbleWords[32] = {
    0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000,
    0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040,
    0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0};
constexpr __mmask32 kUpperWords = 0xaaaaaaaau;
template <int kIndex>
[[gnu::always_inline]] inline Vec16 nibble_float(const Octet16& c) {
  if constexpr (kIndex < 4) {
    const __m512 values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm512_permutexvar_ps(c.by[kIndex], values)};
  } else {
    const __m512i words = _mm512_load_si512(kNibbleWords);
    return {
        _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(kUpperWords, c.by[kIndex - 4], words))};
  }
}
// 16 of a line's 32 BF16: the words that move into the upper halves.
struct ScaleWords {
  alignas(64) uint16_t at[2][32] = {};
  constexpr ScaleWords() {
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 32; ++i) at[half][i] = static_cast<uint16_t>(16 * half + i / 2);
    }
  }
};
constexpr ScaleWords kScaleWords;
[[gnu::always_inline]] inline Vec16 load_scales(const uint8_t* line, int64_t half) {
  return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(
      kUpperWords, _mm512_load_si512(kScaleWords.at[half]), _mm512_loadu_si512(line)))};
}
inline void store_bf16_pairs(uint8_t* p, Vec16 even, Vec16 odd) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even.v), 16);
  _mm512_storeu_si512(p, _mm512_or_si512(low, _mm512_castps_si512(odd.v)));
}

struct Bytes16 {
  __m512i v;
};
constexpr int kMaxInt8TileRows = 8;
template <template <int...> class Table>
using ForInt8TileRows = Table<1, 2, 3, 4, 5, 6, 7, 8>;
constexpr int int8_tile_panels(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

inline Bytes16 even_bytes(Nibbles16 c) { return {_mm512_and_si512(c.v, _mm512_set1_epi8(15))}; }
inline Bytes16 odd_bytes(Nibbles16 c) {
  const auto shifted = reinterpret_cast<__m512i>(reinterpret_cast<Words16>(c.v) >> 4);
  return {_mm512_and_si512(shifted, _mm512_set1_epi8(15))};
}
struct Dots16 {
  __m512i v;
};
[[gnu::always_inline]] inline Dots16 start_dots([[maybe_unused]] const int32_t& offset) {
#ifdef __AVX512VNNI__
  return {_mm512_set1_epi32(offset)};
#else
  return {_mm512_setzero_si512()};
#endif
}
[[gnu::always_inline]] inline void add_dots(Dots16& sum, Bytes16 w, const int8_t* x) {
  int four;
  __builtin_memcpy(&four, x, sizeof(four));
#ifdef __AVX512VNNI__
  sum.v = _mm512_dpbusd_epi32(sum.v, w.v, _mm512_set1_epi32(four));
#else
  sum.v = _mm512_add_epi16(sum.v, _mm512_maddubs_epi16(w.v, _mm512_set1_epi32(four)));
#endif
  asm volatile("" : "+v"(sum.v));
}
[[gnu::always_inline]] inline Vec16 dots_float(Dots16 sum, [[maybe_unused]] const int32_t& offset) {
#ifdef __AVX512VNNI__
  return {_mm512_cvtepi32_ps(sum.v)};
#else
  const __m512i halves = _mm512_madd_epi16(sum.v, _mm512_set1_epi16(1));
  return {_mm512_cvtepi32_ps(_mm512_add_epi32(halves, _mm512_set1_epi32(offset)))};
#endif
}

inline __mmask16 lane_mask(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1u);
}
inline Vec16 load_first(const float* p, int64_t count, Vec16 rest) {
  return {_mm512_mask_loadu_ps(rest.v, lane_mask(count), p)};
}
inline void store_first(float* p, Vec16 a, int64_t count) {
  _mm512_mask_storeu_ps(p, lane_mask(count), a.v);
}
inline Vec16 keep_first(Vec16 a, int64_t count, Vec16 rest) {
  return {_mm512_mask_mov_ps(rest.v, lane_mask(count), a.v)};
}

inline float reduce_add(Vec16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_max(Vec16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline Vec16 round_to_int(Vec16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec16 power_of_two(Vec16 n) {
  return {_mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
}
inline Vec16 select_greater(Vec16 a, Vec16 b, Vec16 x, Vec16 y) {
  return {_mm512_mask_mov_ps(y.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ), x.v)};
}

inline float sqrt1(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
// Into L2: the line is needed some KiB later, and filling L1 would hold up what runs now.
// Inlined by force: the optimiser takes a function that only prefetches for one that does nothing.
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace
}  // namespace bulkhead::kernels
