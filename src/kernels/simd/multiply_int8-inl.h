// Activations in bytes, and their products with INT4 weights: sums of a group are exact integers.
// Included after multiply_int4-inl.h, by ISA translation units only.
#pragma once

#include <immintrin.h>

#include "kernels/int4_panels.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

// 32 floats to bytes, in words of AVX2, which every vector ISA here has.
void quantise_group(const float* x, int8_t* codes, float* scale, int32_t* offset) {
  __m256 values[4];
  __m256i greatest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_loadu_ps(x + 8 * i);
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(values[i]), _mm256_set1_epi32(0x7fffffff));
    greatest = _mm256_max_epi32(greatest, magnitude);
  }
  __m128i four =
      _mm_max_epi32(_mm256_castsi256_si128(greatest), _mm256_extracti128_si256(greatest, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  const int bits = _mm_cvtsi128_si32(four);
  auto* out = reinterpret_cast<__m256i*>(codes);
  if (bits < kInt8LeastBits || bits >= kInt8InfinityBits) {
    _mm256_storeu_si256(out, _mm256_setzero_si256());
    *scale = bits < kInt8LeastBits ? 0.0f : __builtin_nanf("");
    *offset = 0;
    return;
  }
  float amax;
  __builtin_memcpy(&amax, &bits, sizeof(amax));
  *scale = amax / 127.0f;
  const __m256 inverse = _mm256_set1_ps(127.0f / amax);
  __m256i words[4];
  for (int i = 0; i < 4; ++i) words[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
  // Packing works in halves: dwords of bytes come out as 0-3, 8-11, .., then 4-7, 12-15, ..
  const __m256i halves = _mm256_packs_epi16(_mm256_packs_epi32(words[0], words[1]),
                                            _mm256_packs_epi32(words[2], words[3]));
  const __m256i in_order =
      _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i even_first = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
  const __m256i bytes = _mm256_shuffle_epi8(in_order, even_first);
  _mm256_storeu_si256(out, bytes);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
  *offset = -8 * _mm_cvtsi128_si32(sum);
}

void quantise_row(const float* x, int64_t k, int8_t* codes, float* scales, int32_t* offsets) {
  for (int64_t begin = 0; begin < k; begin += kInt4GroupK) {
    if (begin + kInt4GroupK <= k) {
      quantise_group(x + begin, codes + begin, scales++, offsets++);
      continue;
    }
    float edge[kInt4GroupK] = {};
    for (int64_t i = 0; begin + i < k; ++i) edge[i] = x[begin + i];
    quantise_group(edge, codes + begin, scales++, offsets++);
  }
}

// Rows [row, row + kRows) times the kPanels panels `panel`, panel + panel_step, ...
template <int kRows, int kPanels>
void multiply_bytes(const Int8Product& product, int64_t row, int64_t panel, int64_t panel_step) {
  Totals<kRows, kPanels> totals;
  totals.load(product, row, panel, panel_step);
  const int64_t a_stride = product.groups * kInt4GroupK;
  const int8_t* a = product.a + row * a_stride;
  for (int64_t group = 0; group < product.groups; ++group) {
    const int64_t block = group / 2 * kInt4BlockBytes;
    Dots16 dots[kRows][kPanels];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        dots[r][p] = start_dots(product.offsets[(row + r) * product.groups + group]);
      }
    }
    for (int64_t line = 0; line < kInt4GroupK / 8; ++line) {
      const int64_t at = block + group % 2 * kGroupCodeBytes + line * kCodeLineBytes;
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        const Nibbles16 codes = load_nibbles(product.codes[panel + p * panel_step] + at);
        const Bytes16 even = even_bytes(codes);
        const Bytes16 odd = odd_bytes(codes);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          add_dots(dots[r][p], even, a + r * a_stride + line * 8);
          add_dots(dots[r][p], odd, a + r * a_stride + line * 8 + 4);
        }
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const uint8_t* at = product.codes[panel + p * panel_step] + block + kInt4ScaleOffset;
      const Vec16 scale = load_scales(at, group % 2);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const int64_t index = (row + r) * product.groups + group;
        totals.add(r, p, dots_float(dots[r][p], product.offsets[index]),
                   mul(scale, broadcast16(product.scales[index])));
      }
    }
    a += kInt4GroupK;
  }
  totals.store(product, row, panel, panel_step);
}

using Int8TileFn = void (*)(const Int8Product& product, int64_t row, int64_t panel,
                            int64_t panel_step);
struct Int8TileForms {
  Int8TileFn wide;
  Int8TileFn narrow;
};
template <int... kRows>
struct Int8TileTable {
  static constexpr Int8TileForms kForms[] = {
      {multiply_bytes<kRows, int8_tile_panels(kRows)>, multiply_bytes<kRows, 1>}...};
};
using Int8Tiles = ForInt8TileRows<Int8TileTable>;
static_assert(sizeof(Int8Tiles::kForms) / sizeof(Int8TileForms) == kMaxInt8TileRows);

void multiply_int8(const Int8Product& product) {
  const int64_t tiles = (product.rows + kMaxInt8TileRows - 1) / kMaxInt8TileRows;
  const int64_t height = product.rows / tiles;
  const int64_t side = int8_tile_panels(static_cast<int>(height));
  const int64_t sets = product.panels / side;
  const auto rows_times = [&](int64_t panel, int64_t count, int64_t panel_step) {
    int64_t row = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t rows = height + (tile < product.rows % tiles ? 1 : 0);
      const Int8TileForms& forms = Int8Tiles::kForms[rows - 1];
      if (int8_tile_panels(static_cast<int>(rows)) == count) {
        forms.wide(product, row, panel, panel_step);
      } else {
        for (int64_t p = 0; p < count; ++p) forms.narrow(product, row, panel + p * panel_step, 1);
      }
      row += rows;
    }
  };
  for (int64_t set = 0; set < sets; ++set) rows_times(set, side, sets);
  for (int64_t panel = sets * side; panel < product.panels; ++panel) rows_times(panel, 1, 1);
}

}  // namespace
}  // namespace bulkhead::kernels
