// The row-wise operations over the vocabulary. Included after math-inl.h, by ISA translation units
// only.
#pragma once

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

// Calls body(offset, count) for whole vectors (count 16), then once for the tail.
template <typename Body>
[[gnu::always_inline]] inline void for_each_vector(int64_t width, Body body) {
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) body(i, int64_t{16});
  if (i < width) body(i, width - i);
}

[[gnu::always_inline]] inline Vec16 load_some(const float* p, int64_t count) {
  return count == 16 ? load16(p) : load_first(p, count, zero16());
}
[[gnu::always_inline]] inline void store_some(float* p, Vec16 v, int64_t count) {
  if (count == 16) {
    store16(p, v);
  } else {
    store_first(p, v, count);
  }
}

SoftmaxState softmax(float* scores, int64_t count) {
  Vec16 greatest = broadcast16(-__builtin_inff());
  for_each_vector(count, [&](int64_t i, int64_t n) {
    greatest = max(greatest, n == 16 ? load16(scores + i)
                                     : load_first(scores + i, n, broadcast16(-__builtin_inff())));
  });
  SoftmaxState state;
  state.max = reduce_max(greatest);
  const Vec16 shift = broadcast16(state.max);
  Vec16 sum = zero16();
  for_each_vector(count, [&](int64_t i, int64_t n) {
    const Vec16 e = exponential(sub(load_some(scores + i, n), shift));
    store_some(scores + i, e, n);
    sum = add(sum, n == 16 ? e : keep_first(e, n, zero16()));
  });
  state.sum = reduce_add(sum);
  return state;
}

void merge(SoftmaxState* state, float* out, const SoftmaxState* cut, const float* cut_out,
           int64_t dims) {
  const float greatest = cut->max > state->max ? cut->max : state->max;
  const Vec16 old_weight = exponential(broadcast16(state->max - greatest));
  const Vec16 new_weight = exponential(broadcast16(cut->max - greatest));
  for_each_vector(dims, [&](int64_t i, int64_t n) {
    const Vec16 kept = mul(load_some(out + i, n), old_weight);
    store_some(out + i, fma(load_some(cut_out + i, n), new_weight, kept), n);
  });
  float sum[16];
  store16(sum, fma(broadcast16(cut->sum), new_weight, mul(broadcast16(state->sum), old_weight)));
  state->sum = sum[0];
  state->max = greatest;
}

void divide(const float* x, float divisor, float* out, int64_t count) {
  const Vec16 d = broadcast16(divisor);
  for_each_vector(
      count, [&](int64_t i, int64_t n) { store_some(out + i, div(load_some(x + i, n), d), n); });
}

void scale(const float* x, float factor, float* out, int64_t count) {
  const Vec16 f = broadcast16(factor);
  for_each_vector(
      count, [&](int64_t i, int64_t n) { store_some(out + i, mul(load_some(x + i, n), f), n); });
}

void scale_each(float* x, const float* factors, int64_t count) {
  for_each_vector(count, [&](int64_t i, int64_t n) {
    store_some(x + i, mul(load_some(x + i, n), load_some(factors + i, n)), n);
  });
}

void rms_norm(const float* x, const float* weight, float eps, float* out, int64_t width) {
  Vec16 squares = zero16();
  for_each_vector(width, [&](int64_t i, int64_t n) {
    const Vec16 v = load_some(x + i, n);
    squares = fma(v, v, squares);
  });
  const float mean = reduce_add(squares) / static_cast<float>(width);
  const Vec16 factor = broadcast16(1.0f / sqrt1(mean + eps));
  for_each_vector(width, [&](int64_t i, int64_t n) {
    store_some(out + i, mul(mul(load_some(x + i, n), factor), load_some(weight + i, n)), n);
  });
}

void rope(float* x, const float* cos, const float* sin, int64_t half) {
  for_each_vector(half, [&](int64_t i, int64_t n) {
    const Vec16 a = load_some(x + i, n);
    const Vec16 b = load_some(x + half + i, n);
    const Vec16 c = load_some(cos + i, n);
    const Vec16 s = load_some(sin + i, n);
    store_some(x + i, fms(a, c, mul(b, s)), n);
    store_some(x + half + i, fma(b, c, mul(a, s)), n);
  });
}

void swiglu(const float* gate, const float* up, float* out, int64_t width) {
  const Vec16 one = broadcast16(1.0f);
  for_each_vector(width, [&](int64_t i, int64_t n) {
    const Vec16 g = load_some(gate + i, n);
    const Vec16 silu = div(g, add(one, exponential(sub(zero16(), g))));
    store_some(out + i, mul(silu, load_some(up + i, n)), n);
  });
}

void exponential_of(const float* x, float* out, int64_t count) {
  for_each_vector(count, [&](int64_t i, int64_t n) {
    store_some(out + i, exponential(load_some(x + i, n)), n);
  });
}

}  // namespace
}  // namespace bulkhead::kernels
