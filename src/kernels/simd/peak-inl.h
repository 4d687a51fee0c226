// Loops that do nothing but use the machine: what the benches divide by. Included after a vec_*.h,
// by ISA translation units only.
#pragma once

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

// Six independent chains of 16 lanes: 12 registers of AVX2, enough for 2 FMA x 4 cycles.
constexpr int kPeakChains = 6;

float fma_rounds(int64_t rounds) {
  Vec16 chain[kPeakChains];
  for (int i = 0; i < kPeakChains; ++i) chain[i] = broadcast16(static_cast<float>(i));
  const float seed = 0.999f;
  const Vec16 w[1] = {broadcast16(0.5f)};
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < kPeakChains; ++i) chain[i] = fma(chain[i], broadcast16(seed), w[0]);
  }
  float sum = 0.0f;
  for (int i = 0; i < kPeakChains; ++i) sum += reduce_add(chain[i]);
  return sum;
}

// Reads [p, p + count) once, four streams side by side; count is a multiple of 256.
float read_floats(const float* p, int64_t count) {
  const int64_t quarter = count / 4;
  Vec16 sum[4] = {zero16(), zero16(), zero16(), zero16()};
  for (int64_t i = 0; i < quarter; i += 64) {
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        sum[s] = max(sum[s], load16(p + s * quarter + i + 16 * j));
      }
    }
  }
  return reduce_max(max(max(sum[0], sum[1]), max(sum[2], sum[3])));
}

}  // namespace
}  // namespace bulkhead::kernels
