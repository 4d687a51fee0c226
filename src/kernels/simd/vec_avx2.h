// The vocabulary on AVX2 + FMA: 16 floats in two registers.
//
// Included only by simd/ops_avx2.cc. Vec16 has the same meaning on every ISA, so one source gives
// the same bits everywhere: lane i is column i of a weight panel.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace bulkhead::kernels {
namespace {

struct Vec16 {
  __m256 lo;
  __m256 hi;
};
// 16 k-pairs of BF16, one per column.
struct Pairs16 {
  __m256i lo;
  __m256i hi;
};

// Rows of a multiply tile; the accumulators of the widest tile fill 12 of 16 registers.
constexpr int kMaxTileRows = 6;
template <template <int...> class Table>
using ForTileRows = Table<1, 2, 3, 4, 5, 6>;
// Panels side by side: enough independent chains (2 per panel and row) to cover 2 FMA x 4 cycles.
// Three rows of two panels would leave no register for the weights.
constexpr int tile_panels(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
// Tiles from so many rows on have no register for a line and load it for each k again.
constexpr int kReloadRows = 5;
// Up to so many rows FP8 codes go panel by panel through a line: together with the codes on their
// way the sums of one row would fill the registers.
constexpr int kCodesByPanelRows = 2;

inline Vec16 zero16() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Vec16 broadcast16(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec16 load16(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store16(float* p, Vec16 v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
inline Vec16 add(Vec16 a, Vec16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline Vec16 sub(Vec16 a, Vec16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline Vec16 mul(Vec16 a, Vec16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline Vec16 div(Vec16 a, Vec16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
// a * b + c, rounded once.
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// acc = a[0] * w + acc for each of the row's panels: the heart of a tile, kept in the order
// written. Left to itself, g++ 12 moves the sums about, fetches a[0] of later rows early, and
// spills five of twelve accumulators.
template <int kPanels>
[[gnu::always_inline]] inline void fma_row(Vec16 (&acc)[kPanels], const float& a,
                                           const Vec16 (&w)[kPanels]) {
  __m256 x;
  asm volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(a));
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) {
    asm volatile("vfmadd231ps %1, %2, %0" : "+x"(acc[p].lo) : "x"(x), "x"(w[p].lo));
    asm volatile("vfmadd231ps %1, %2, %0" : "+x"(acc[p].hi) : "x"(x), "x"(w[p].hi));
  }
}
[[gnu::always_inline]] inline void fma_one(Vec16& acc, const float& a, Vec16 w) {
  __m256 x;
  asm volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(a));
  asm volatile("vfmadd231ps %1, %2, %0" : "+x"(acc.lo) : "x"(x), "x"(w.lo));
  asm volatile("vfmadd231ps %1, %2, %0" : "+x"(acc.hi) : "x"(x), "x"(w.hi));
}
// a * b - c, rounded once.
inline Vec16 fms(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi)};
}
// The second operand where either is NaN.
inline Vec16 max(Vec16 a, Vec16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
inline Vec16 min(Vec16 a, Vec16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

inline Pairs16 load_pairs(const uint16_t* p) {
  const auto* v = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
// The even k of every column: the low half, moved up.
inline Vec16 widen_even(Pairs16 p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(p.lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(p.hi, 16))};
}
// The odd k of every column: the high half, where it stands. The mask comes from memory: the widest
// tile has no register for it.
alignas(32) constexpr uint32_t kHighHalves[8] = {0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                 0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                 0xffff0000u, 0xffff0000u};
inline Vec16 widen_odd(Pairs16 p) {
  const auto& mask = *reinterpret_cast<const __m256i*>(kHighHalves);
  Vec16 out;
  asm("vpand %1, %2, %0" : "=x"(out.lo) : "m"(mask), "x"(p.lo));
  asm("vpand %1, %2, %0" : "=x"(out.hi) : "m"(mask), "x"(p.hi));
  return out;
}

// 4 k of e4m3 codes of 16 columns, in the byte order of fp8_panels.h.
struct Codes16 {
  __m256i lo;
  __m256i hi;
};
inline Codes16 load_codes(const uint8_t* p) {
  const auto* v = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
// A code moved to where BF16 has its sign and its lowest exponent and highest mantissa bits is
// 2^-120 times its value, exactly: subnormal codes are subnormal floats.
constexpr float kFp8Lift = 0x1p64f;
inline __m256i code_bits() { return _mm256_set1_epi32(static_cast<int>(0x87f087f0u)); }
// The k-pair in the upper bytes, and the one in the lower bytes.
inline Pairs16 first_pairs(Codes16 c) {
  return {_mm256_and_si256(_mm256_srai_epi16(c.lo, 4), code_bits()),
          _mm256_and_si256(_mm256_srai_epi16(c.hi, 4), code_bits())};
}
inline Pairs16 second_pairs(Codes16 c) {
  return first_pairs({_mm256_slli_epi16(c.lo, 8), _mm256_slli_epi16(c.hi, 8)});
}
// The code of k number kIndex: moved to where its sign stands in a float's, what the shift drew out
// of the sign and what stands behind are masked off. The mask comes from memory as well.
alignas(32) constexpr uint32_t kCodeBits[8] = {0x87f00000u, 0x87f00000u, 0x87f00000u, 0x87f00000u,
                                               0x87f00000u, 0x87f00000u, 0x87f00000u, 0x87f00000u};
template <int kIndex>
[[gnu::always_inline]] inline __m256 code_float(__m256i code) {
  if constexpr (kIndex >= 2) code = _mm256_slli_epi16(code, 8);
  code = _mm256_srai_epi16(code, 4);
  if constexpr (kIndex % 2 == 0) code = _mm256_slli_epi32(code, 16);
  const auto& mask = *reinterpret_cast<const __m256i*>(kCodeBits);
  __m256 out;
  asm("vpand %1, %2, %0" : "=x"(out) : "m"(mask), "x"(code));
  return out;
}
template <int kIndex>
[[gnu::always_inline]] inline Vec16 code_floats(Codes16 c) {
  return {code_float<kIndex>(c.lo), code_float<kIndex>(c.hi)};
}
inline void store_pairs(uint8_t* p, Pairs16 pairs) {
  auto* v = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(v, pairs.lo);
  _mm256_storeu_si256(v + 1, pairs.hi);
}

// A dword of eight 4-bit codes for each column.
struct Nibbles16 {
  __m256i lo;
  __m256i hi;
};
// Panels whose codes are in registers at a time while a row's sums of all its panels are.
constexpr int kCodePanels = 2;
// Rows of a tile that widens codes in registers: beyond, the sums leave no room for them.
constexpr int kMaxCodeTileRows = 4;
template <template <int...> class Table>
using ForCodeTileRows = Table<1, 2, 3, 4>;
constexpr int code_tile_panels(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

inline Nibbles16 load_nibbles(const uint8_t* p) {
  const auto* v = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
// What nibble_float() wants of codes 0 to 4, and of 5 to 7. A code in mantissa bits 4i to 4i + 3 of
// a float of exponent 23 - 4i adds its own value: the exponent bits of all five places are set
// here, one mask then keeps a code and its exponent.
constexpr uint32_t kCodeExponents = 0x4f000000u;
inline Nibbles16 with_exponents(__m256i lo, __m256i hi) {
  const __m256i exponents = _mm256_set1_epi32(static_cast<int>(kCodeExponents));
  Nibbles16 out{_mm256_or_si256(lo, exponents), _mm256_or_si256(hi, exponents)};
  // Unseen, the optimiser would undo the sharing: (x | a) & b as (x & b) | (a & b).
  asm("" : "+x"(out.lo), "+x"(out.hi));
  return out;
}
// A line's eight codes of every column, for nibble_float().
struct Octet16 {
  Nibbles16 low;
  Nibbles16 high;
};
inline Octet16 open_nibbles(Nibbles16 c) {
  return {with_exponents(c.lo, c.hi),
          with_exponents(_mm256_srli_epi32(c.lo, 20), _mm256_srli_epi32(c.hi, 20))};
}
// Drops code 0.
inline Nibbles16 next_nibbles(Nibbles16 c) {
  return {_mm256_srli_epi32(c.lo, 4), _mm256_srli_epi32(c.hi, 4)};
}
// code - 8 of every column, of the code number kIndex.
template <int kIndex>
[[gnu::always_inline]] inline Vec16 nibble_float(const Octet16& octet) {
  constexpr int kPlace = kIndex % 5;
  constexpr int kExponent = 23 - 4 * kPlace;
  const Nibbles16& c = kIndex < 5 ? octet.low : octet.high;
  const __m256i mask = _mm256_set1_epi32(((127 + kExponent) << 23) | (15 << (4 * kPlace)));
  const __m256 offset = _mm256_set1_ps(static_cast<float>((1 << kExponent) + 8));
  return {_mm256_sub_ps(_mm256_castsi256_ps(_mm256_and_si256(c.lo, mask)), offset),
          _mm256_sub_ps(_mm256_castsi256_ps(_mm256_and_si256(c.hi, mask)), offset)};
}
// The first or the second 16 of a line of 32 BF16.
inline Vec16 load_scales(const uint8_t* line, int64_t half) {
  const auto* v = reinterpret_cast<const __m128i*>(line) + 2 * half;
  const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(v));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(v + 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
// A line of BF16 pairs from values that are BF16 already.
inline void store_bf16_pairs(uint8_t* p, Vec16 even, Vec16 odd) {
  auto* v = reinterpret_cast<__m256i*>(p);
  const __m256i lo = _mm256_srli_epi32(_mm256_castps_si256(even.lo), 16);
  const __m256i hi = _mm256_srli_epi32(_mm256_castps_si256(even.hi), 16);
  _mm256_storeu_si256(v, _mm256_or_si256(lo, _mm256_castps_si256(odd.lo)));
  _mm256_storeu_si256(v + 1, _mm256_or_si256(hi, _mm256_castps_si256(odd.hi)));
}

// Four bytes of each column, and sums of their products.
struct Bytes16 {
  __m256i lo;
  __m256i hi;
};
constexpr int kMaxInt8TileRows = 4;
template <template <int...> class Table>
using ForInt8TileRows = Table<1, 2, 3, 4>;
constexpr int int8_tile_panels(int rows) { return rows == 1 ? 2 : 1; }

inline Bytes16 even_bytes(Nibbles16 c) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(c.lo, mask), _mm256_and_si256(c.hi, mask)};
}
inline Bytes16 odd_bytes(Nibbles16 c) {
  return even_bytes({_mm256_srli_epi16(c.lo, 4), _mm256_srli_epi16(c.hi, 4)});
}
// In 16 bits: a group of 32 adds 16 products of at most 15 * 127 to each half of a column.
struct Dots16 {
  __m256i lo;
  __m256i hi;
};
// Sums of a group that start from its row's offset: here it is only added at the end, for it has
// more than 16 bits.
inline Dots16 start_dots(const int32_t& /*offset*/) {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
// Adds the products of w with the four signed bytes at x, the same for every column. Left to
// itself, g++ 12 moves the sums to memory.
[[gnu::always_inline]] inline void add_dots(Dots16& sum, Bytes16 w, const int8_t* x) {
  int four;
  __builtin_memcpy(&four, x, sizeof(four));
  const __m256i bytes = _mm256_set1_epi32(four);
  sum.lo = _mm256_add_epi16(sum.lo, _mm256_maddubs_epi16(w.lo, bytes));
  sum.hi = _mm256_add_epi16(sum.hi, _mm256_maddubs_epi16(w.hi, bytes));
  asm volatile("" : "+x"(sum.lo), "+x"(sum.hi));
}
[[gnu::always_inline]] inline Vec16 dots_float(Dots16 sum, const int32_t& offset) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i start = _mm256_set1_epi32(offset);
  return {_mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(sum.lo, ones), start)),
          _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(sum.hi, ones), start))};
}

inline __m256i lane_mask(int64_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
}
// The first `count` lanes from memory, `rest` in the others.
inline Vec16 load_first(const float* p, int64_t count, Vec16 rest) {
  const __m256i lo = lane_mask(count);
  const __m256i hi = lane_mask(count - 8);
  // Beyond the eighth lane p + 8 may not exist: an all-zero mask reads nothing.
  return {_mm256_blendv_ps(rest.lo, _mm256_maskload_ps(p, lo), _mm256_castsi256_ps(lo)),
          _mm256_blendv_ps(rest.hi, _mm256_maskload_ps(p + 8, hi), _mm256_castsi256_ps(hi))};
}
inline void store_first(float* p, Vec16 v, int64_t count) {
  _mm256_maskstore_ps(p, lane_mask(count), v.lo);
  _mm256_maskstore_ps(p + 8, lane_mask(count - 8), v.hi);
}
// v in the first `count` lanes, `rest` in the others.
inline Vec16 keep_first(Vec16 v, int64_t count, Vec16 rest) {
  return {_mm256_blendv_ps(rest.lo, v.lo, _mm256_castsi256_ps(lane_mask(count))),
          _mm256_blendv_ps(rest.hi, v.hi, _mm256_castsi256_ps(lane_mask(count - 8)))};
}

// Lanes are halved: 16 -> 8 -> 4 -> 2 -> 1.
inline float reduce_add(Vec16 v) {
  const __m256 eight = _mm256_add_ps(v.lo, v.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_max(Vec16 v) {
  const __m256 eight = _mm256_max_ps(v.lo, v.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline Vec16 round_to_int(Vec16 v) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(v.lo, kNearest), _mm256_round_ps(v.hi, kNearest)};
}
// 2^n for integral n in [-126, 127].
inline Vec16 power_of_two(Vec16 n) {
  const __m256i bias = _mm256_set1_epi32(127);
  return {
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.lo), bias), 23)),
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.hi), bias), 23))};
}
// a > b ? x : y; y where either is NaN.
inline Vec16 select_greater(Vec16 a, Vec16 b, Vec16 x, Vec16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ))};
}

inline float sqrt1(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
// Into L2: the line is needed some KiB later, and filling L1 would hold up what runs now.
// Inlined by force: the optimiser takes a function that only prefetches for one that does nothing.
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace
}  // namespace bulkhead::kernels
