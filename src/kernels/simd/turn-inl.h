// The values of a latent cache from its keys: codes paired along dims become codes paired along
// tokens. Integer shuffles of AVX2, which every vector ISA here has. Included after a vec_*.h, by
// ISA translation units only.
#pragma once

#include <immintrin.h>

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

// Four rows of four 64-bit elements, transposed.
[[gnu::always_inline]] inline void transpose4(__m256i (&rows)[4]) {
  const __m256i low01 = _mm256_unpacklo_epi64(rows[0], rows[1]);
  const __m256i high01 = _mm256_unpackhi_epi64(rows[0], rows[1]);
  const __m256i low23 = _mm256_unpacklo_epi64(rows[2], rows[3]);
  const __m256i high23 = _mm256_unpackhi_epi64(rows[2], rows[3]);
  rows[0] = _mm256_permute2x128_si256(low01, low23, 0x20);
  rows[1] = _mm256_permute2x128_si256(high01, high23, 0x20);
  rows[2] = _mm256_permute2x128_si256(low01, low23, 0x31);
  rows[3] = _mm256_permute2x128_si256(high01, high23, 0x31);
}

// A block of 8 dim pairs x 16 tokens becomes one of 8 token pairs x 16 dims; a line is 32 codes.
// Of two neighbouring tokens and a dim pair, the four codes are one 64-bit element: within it the
// middle two change places, and the elements are transposed.
[[gnu::always_inline]] inline void turn_block(const uint16_t* from, uint16_t* to) {
  const __m256i swap = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  for (int64_t d = 0; d < 8; d += 4) {
    for (int64_t t = 0; t < 8; t += 4) {
      __m256i rows[4];
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        const auto* line = reinterpret_cast<const __m256i*>(from + (d + i) * 32 + t * 4);
        rows[i] = _mm256_shuffle_epi8(_mm256_loadu_si256(line), swap);
      }
      transpose4(rows);
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        auto* line = reinterpret_cast<__m256i*>(to + (t + i) * 32 + d * 4);
        _mm256_storeu_si256(line, rows[i]);
      }
    }
  }
}

void turn_panel(const uint16_t* keys, int64_t dim_panels, uint16_t* values, int64_t value_stride) {
  for (int64_t panel = 0; panel < dim_panels; ++panel) {
    turn_block(keys + panel * 8 * 32, values + panel * value_stride);
  }
}

// 16 bytes are 4 dims of 4 tokens; turned in place they are 4 tokens of 4 dims, in the same byte
// order (fp8_panels.h). Of a block of 16 dims x 16 tokens the pieces change places as a matrix
// does.
void turn_panel_fp8(const uint8_t* keys, int64_t dim_panels, uint8_t* values,
                    int64_t value_stride) {
  const __m128i turn = _mm_setr_epi8(9, 1, 13, 5, 11, 3, 15, 7, 8, 0, 12, 4, 10, 2, 14, 6);
  for (int64_t panel = 0; panel < dim_panels; ++panel) {
    const uint8_t* from = keys + panel * 4 * 64;
    uint8_t* to = values + panel * value_stride;
#pragma GCC unroll 4
    for (int64_t d = 0; d < 4; ++d) {
#pragma GCC unroll 4
      for (int64_t t = 0; t < 4; ++t) {
        const auto* in = reinterpret_cast<const __m128i*>(from + d * 64 + t * 16);
        auto* out = reinterpret_cast<__m128i*>(to + t * 64 + d * 16);
        _mm_storeu_si128(out, _mm_shuffle_epi8(_mm_loadu_si128(in), turn));
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
