// exp over the vocabulary. Included after a vec_*.h, by ISA translation units only.
#pragma once

namespace bulkhead::kernels {
namespace {

// Within 2 ulp for x in [-86.6, 88.7]; 0 below (the true value is under 2^-124), infinity above
// 88.7228; NaN stays NaN. exp(x) = 2^n (1 + r + r^2 q(r)), n = round(x / ln 2), |r| <= ln 2 / 2;
// q is the degree-4 polynomial of least greatest error, 0.06 ulp in the result.
inline Vec16 exponential(Vec16 x) {
  const Vec16 lowest = broadcast16(-86.6f);
  const Vec16 highest = broadcast16(88.7228f);
  // The operand order lets a NaN through.
  const Vec16 clamped = max(lowest, min(highest, x));
  const Vec16 n = round_to_int(mul(clamped, broadcast16(0x1.715476p+0f)));
  // ln 2 in two parts: n times the first is exact.
  Vec16 r = fma(n, broadcast16(-0x1.63p-1f), clamped);
  r = fma(n, broadcast16(0x1.bd0106p-13f), r);
  Vec16 q = broadcast16(0x1.6a254cp-10f);
  q = fma(q, r, broadcast16(0x1.123a1ep-7f));
  q = fma(q, r, broadcast16(0x1.5558f2p-5f));
  q = fma(q, r, broadcast16(0x1.555492p-3f));
  q = fma(q, r, broadcast16(0x1.fffffcp-2f));
  const Vec16 e = add(fma(mul(r, r), q, r), broadcast16(1.0f));
  // n reaches 128, one more than a power of two can hold: the last doubling is a sum.
  const Vec16 half = mul(e, power_of_two(sub(n, broadcast16(1.0f))));
  const Vec16 value = add(half, half);
  const Vec16 low_cut = select_greater(lowest, x, zero16(), value);
  return select_greater(x, highest, broadcast16(__builtin_inff()), low_cut);
}

inline float exponential1(float x) {
  float lanes[16];
  store16(lanes, exponential(broadcast16(x)));
  return lanes[0];
}

}  // namespace
}  // namespace bulkhead::kernels
