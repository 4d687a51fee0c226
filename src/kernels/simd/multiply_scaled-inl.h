// Products of many rows with INT4 weights where registers are few: a stretch of a panel is widened
// once, and its lines go through the tiles of multiply-inl.h.
// Included after multiply_int4-inl.h, by ISA translation units only.
#pragma once

#include "kernels/int4_panels.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

void expand_int4(const uint8_t* codes, int64_t groups, const uint8_t* ahead, uint8_t* lines,
                 float* scales) {
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t block = group / 2 * kInt4BlockBytes;
    const int64_t offset = block + group % 2 * kGroupCodeBytes;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kGroupCodeBytes; i += kCodeLineBytes) {
      prefetch(ahead + offset + i);
      const Octet16 octet = open_nibbles(load_nibbles(codes + offset + i));
      store_bf16_pairs(lines, nibble_float<0>(octet), nibble_float<1>(octet));
      store_bf16_pairs(lines + kLine, nibble_float<2>(octet), nibble_float<3>(octet));
      store_bf16_pairs(lines + 2 * kLine, nibble_float<4>(octet), nibble_float<5>(octet));
      store_bf16_pairs(lines + 3 * kLine, nibble_float<6>(octet), nibble_float<7>(octet));
      lines += 4 * kLine;
    }
    prefetch(ahead + block + kInt4ScaleOffset);
    store16(scales, load_scales(codes + block + kInt4ScaleOffset, group % 2));
    scales += 16;
  }
}

template <int kRows, int kPanels>
void multiply_lines(const ScaledProduct& product, int64_t row, int64_t panel) {
  const uint8_t* lines[kPanels];
  const uint8_t* ahead[kPanels] = {};
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) lines[p] = product.lines + (panel + p) * product.line_stride;
  const float* scales = product.scales + panel * product.scale_stride;
  const float* a = product.a + row * product.a_stride;
  Totals<kRows, kPanels> totals;
  totals.load(product, row, panel, 1);
  for (int64_t k = 0; k < product.k; k += product.group_k) {
    const int64_t left = product.k - k < product.group_k ? product.k - k : product.group_k;
    Tile<Bf16Lines, kRows, kPanels> tile;
    tile.clear();
    tile.template accumulate<Fetch::kNothing>(a + k, product.a_stride, lines, ahead, 0, left);
    Vec16 scale[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) scale[p] = load16(scales + p * product.scale_stride);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) totals.add(r, p, tile.acc[r][p], scale[p]);
    }
    scales += 16;
  }
  totals.store(product, row, panel, 1);
}

using LineTileFn = void (*)(const ScaledProduct& product, int64_t row, int64_t panel);
struct LineTileForms {
  LineTileFn wide;
  LineTileFn narrow;
};
template <int... kRows>
struct LineTileTable {
  static constexpr LineTileForms kForms[] = {
      {multiply_lines<kRows, tile_panels(kRows)>, multiply_lines<kRows, 1>}...};
};
using LineTiles = ForTileRows<LineTileTable>;

void multiply_scaled(const ScaledProduct& product) {
  const int64_t tiles = (product.rows + kMaxTileRows - 1) / kMaxTileRows;
  int64_t row = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t rows = product.rows / tiles + (tile < product.rows % tiles ? 1 : 0);
    const int side = tile_panels(static_cast<int>(rows));
    const LineTileForms& forms = LineTiles::kForms[rows - 1];
    int64_t panel = 0;
    for (; panel + side <= product.panels; panel += side) forms.wide(product, row, panel);
    for (; panel < product.panels; ++panel) forms.narrow(product, row, panel);
    row += rows;
  }
}

}  // namespace
}  // namespace bulkhead::kernels
