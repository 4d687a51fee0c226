// Activations in bytes, one row times INT4 weights, with dot products of bytes (VNNI). Included
// after multiply_int8-inl.h, by translation units of AVX-512 with VNNI only.
#pragma once

#include "kernels/int4_panels.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

// A row's group: four bytes to a register, over all columns.
struct RowGroup {
  static constexpr int kLines = kInt4GroupK / 8;
  __m512i even[kLines];
  __m512i odd[kLines];
  __m512i offset;

  [[gnu::always_inline]] RowGroup(const int8_t* a, const int32_t& group_offset)
      : offset(_mm512_set1_epi32(group_offset)) {
#pragma GCC unroll 16
    for (int line = 0; line < kLines; ++line) {
      int fours[2];
      __builtin_memcpy(fours, a + line * 8, sizeof(fours));
      even[line] = _mm512_set1_epi32(fours[0]);
      odd[line] = _mm512_set1_epi32(fours[1]);
    }
  }

  // Times the group's lines of one panel. The odd codes stay where they stand, 16 times what they
  // are: a shift of their sum is cheaper than one of each line.
  [[gnu::always_inline]] Vec16 times(const uint8_t* lines) const {
    __m512i even_sum = offset;
    __m512i odd_sum = _mm512_setzero_si512();
#pragma GCC unroll 16
    for (int line = 0; line < kLines; ++line) {
      const __m512i codes = load_nibbles(lines + line * kCodeLineBytes).v;
      even_sum = _mm512_dpbusd_epi32(even_sum, _mm512_and_si512(codes, _mm512_set1_epi8(0x0f)),
                                     even[line]);
      odd_sum = _mm512_dpbusd_epi32(
          odd_sum, _mm512_and_si512(codes, _mm512_set1_epi8(static_cast<char>(0xf0))), odd[line]);
    }
    const auto sixteenth = reinterpret_cast<Integers16>(odd_sum) >> 4;
    return {_mm512_cvtepi32_ps(_mm512_add_epi32(even_sum, reinterpret_cast<__m512i>(sixteenth)))};
  }

 private:
  using Integers16 = int32_t __attribute__((vector_size(64)));
};

// The row times the kPanels panels `panel`, panel + panel_step, ...
template <int kPanels>
void multiply_byte_row(const Int8Product& product, int64_t panel, int64_t panel_step) {
  const uint8_t* lines[kPanels];
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) lines[p] = product.codes[panel + p * panel_step];
  Totals<1, kPanels> totals;
  totals.load(product, 0, panel, panel_step);
  for (int64_t group = 0; group < product.groups; ++group) {
    const RowGroup row(product.a + group * kInt4GroupK, product.offsets[group]);
    const Vec16 row_scale = broadcast16(product.scales[group]);
    const int64_t half = group % 2;
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const Vec16 sum = row.times(lines[p] + half * kGroupCodeBytes);
      totals.add(0, p, sum, mul(load_scales(lines[p] + kInt4ScaleOffset, half), row_scale));
      lines[p] += half * kInt4BlockBytes;
    }
  }
  totals.store(product, 0, panel, panel_step);
}

void multiply_bytes_by_dots(const Int8Product& product) {
  if (product.rows != 1) return multiply_int8(product);
  const int64_t sets = product.panels / 8;
  for (int64_t set = 0; set < sets; ++set) multiply_byte_row<8>(product, set, sets);
  int64_t panel = sets * 8;
  if (product.panels - panel >= 4) {
    multiply_byte_row<4>(product, panel, 1);
    panel += 4;
  }
  for (; panel < product.panels; ++panel) multiply_byte_row<1>(product, panel, 1);
}

constexpr VectorOps with_byte_rows(VectorOps ops) {
  ops.multiply_int8 = multiply_bytes_by_dots;
  return ops;
}

}  // namespace
}  // namespace bulkhead::kernels
