// Products with INT4 weights whose codes are widened in registers.
// Included after multiply-inl.h, by ISA translation units only.
#pragma once

#include "kernels/int4_panels.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

constexpr int64_t kCodeLineBytes = 64;
constexpr int64_t kGroupCodeBytes = kInt4GroupK / 2 * 16;

// What the groups of a tile add up to, in memory of its own: rows of c that are a power of two
// apart would share few cache sets, and the registers belong to the sums of the group.
template <int kRows, int kPanels>
struct Totals {
  alignas(64) float at[kRows][kPanels][16];

  template <typename Product>
  [[gnu::always_inline]] void load(const Product& product, int64_t row, int64_t panel,
                                   int64_t panel_step) {
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPanels; ++p) {
        const int64_t column = (panel + p * panel_step) * 16;
        store16(at[r][p], product.start == nullptr
                              ? zero16()
                              : load16(product.start + (row + r) * product.start_stride + column));
      }
    }
  }
  template <typename Product>
  [[gnu::always_inline]] void store(const Product& product, int64_t row, int64_t panel,
                                    int64_t panel_step) const {
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPanels; ++p) {
        store16(product.c + (row + r) * product.c_stride + (panel + p * panel_step) * 16,
                load16(at[r][p]));
      }
    }
  }
  [[gnu::always_inline]] void add(int row, int panel, Vec16 sum, Vec16 scale) {
    store16(at[row][panel], fma(sum, scale, load16(at[row][panel])));
  }
};

// The sums of one group: kRows rows times kPanels panels, of which kAtOnce have their codes in
// registers at a time.
template <int kRows, int kPanels>
struct CodeTile {
  static constexpr int kAtOnce = kPanels < kCodePanels ? kPanels : kCodePanels;
  static constexpr int kParts = kPanels / kAtOnce;
  using Codes = Octet16[kAtOnce];

  Vec16 acc[kParts][kRows][kAtOnce];

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int p = 0; p < kAtOnce; ++p) acc[part][r][p] = zero16();
      }
    }
  }

  template <int kPart, int kIndex>
  [[gnu::always_inline]] void step(const RowPointers<kRows>& a, int64_t shift, const Codes& codes) {
    Vec16 w[kAtOnce];
#pragma GCC unroll 16
    for (int p = 0; p < kAtOnce; ++p) w[p] = nibble_float<kIndex>(codes[p]);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) fma_row(acc[kPart][r], a.at(r, shift), w);
  }

  // Eight k, part by part.
  template <int kPart = 0>
  [[gnu::always_inline]] void octet(const RowPointers<kRows>& a,
                                    const uint8_t* const (&lines)[kPanels]) {
    Codes codes;
#pragma GCC unroll 16
    for (int p = 0; p < kAtOnce; ++p) {
      codes[p] = open_nibbles(load_nibbles(lines[kPart * kAtOnce + p]));
    }
    step<kPart, 0>(a, 0, codes);
    step<kPart, 1>(a, 1, codes);
    step<kPart, 2>(a, 2, codes);
    step<kPart, 3>(a, 3, codes);
    step<kPart, 4>(a, 4, codes);
    step<kPart, 5>(a, 5, codes);
    step<kPart, 6>(a, 6, codes);
    step<kPart, 7>(a, 7, codes);
    if constexpr (kPart + 1 < kParts) octet<kPart + 1>(a, lines);
  }

  // The last line of a matrix, where it holds `left` < 8 k.
  template <int kPart = 0>
  void some(const float* row, int64_t a_stride, const uint8_t* const (&lines)[kPanels],
            int64_t left) {
    RowPointers<kRows> a(row, a_stride);
    Nibbles16 rest[kAtOnce];
    for (int p = 0; p < kAtOnce; ++p) rest[p] = load_nibbles(lines[kPart * kAtOnce + p]);
    for (int64_t i = 0; i < left; ++i) {
      Codes codes;
      for (int p = 0; p < kAtOnce; ++p) {
        codes[p] = open_nibbles(rest[p]);
        rest[p] = next_nibbles(rest[p]);
      }
      step<kPart, 0>(a, 0, codes);
      a.advance(1);
    }
    if constexpr (kPart + 1 < kParts) some<kPart + 1>(row, a_stride, lines, left);
  }
};

// Rows [row, row + kRows) times the kPanels panels `panel`, panel + panel_step, ...
template <int kRows, int kPanels>
void multiply_codes(const Int4Product& product, int64_t row, int64_t panel, int64_t panel_step) {
  using Tile = CodeTile<kRows, kPanels>;
  const uint8_t* lines[kPanels];
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p) lines[p] = product.codes[panel + p * panel_step];
  const float* first_row = product.a + row * product.a_stride;
  Totals<kRows, kPanels> totals;
  totals.load(product, row, panel, panel_step);
  for (int64_t k = 0; k < product.k; k += kInt4GroupK) {
    const bool second = k % kInt4BlockK != 0;
    const int64_t left = product.k - k < kInt4GroupK ? product.k - k : kInt4GroupK;
    Tile tile;
    tile.clear();
    RowPointers<kRows> a(first_row + k, product.a_stride);
    for (int64_t i = 8; i <= left; i += 8) {
      tile.octet(a, lines);
      a.advance(8);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) lines[p] += kCodeLineBytes;
    }
    if (left % 8 != 0) {
      const float* rest = first_row + k + left / 8 * 8;
      tile.some(rest, product.a_stride, lines, left % 8);
    }
    Vec16 scale[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      // A short group is the last one: only its scales are still looked for.
      if (left < kInt4GroupK) lines[p] += kGroupCodeBytes - left / 8 * kCodeLineBytes;
      scale[p] = load_scales(lines[p] + (second ? 0 : kGroupCodeBytes), second ? 1 : 0);
      if (second) lines[p] += kCodeLineBytes;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        totals.add(r, p, tile.acc[p / Tile::kAtOnce][r][p % Tile::kAtOnce], scale[p]);
      }
    }
  }
  totals.store(product, row, panel, panel_step);
}

using CodeTileFn = void (*)(const Int4Product& product, int64_t row, int64_t panel,
                            int64_t panel_step);
struct CodeTileForms {
  CodeTileFn wide;
  CodeTileFn half;  // of what is left over
  CodeTileFn narrow;
};
template <int kRows>
constexpr CodeTileForms code_tile_forms() {
  constexpr int kWide = code_tile_panels(kRows);
  return {multiply_codes<kRows, kWide>, multiply_codes < kRows, kWide == 1 ? 1 : kWide / 2 >,
          multiply_codes<kRows, 1>};
}
template <int... kRows>
struct CodeTileTable {
  static constexpr CodeTileForms kForms[] = {code_tile_forms<kRows>()...};
};
using CodeTiles = ForCodeTileRows<CodeTileTable>;
static_assert(sizeof(CodeTiles::kForms) / sizeof(CodeTileForms) == kMaxCodeTileRows);

int64_t int4_panels_at_once(int64_t rows) {
  const int64_t tiles = (rows + kMaxCodeTileRows - 1) / kMaxCodeTileRows;
  return code_tile_panels(static_cast<int>((rows + tiles - 1) / tiles));
}

// As multiply(): tiles of nearly equal height, side by side panels that stand apart.
void multiply_int4(const Int4Product& product) {
  const int64_t tiles = (product.rows + kMaxCodeTileRows - 1) / kMaxCodeTileRows;
  const int64_t side = int4_panels_at_once(product.rows);
  const int64_t sets = product.panels / side;
  const auto rows_times = [&](int64_t panel, int64_t count, int64_t panel_step) {
    int64_t row = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t rows = product.rows / tiles + (tile < product.rows % tiles ? 1 : 0);
      const CodeTileForms& forms = CodeTiles::kForms[rows - 1];
      const int64_t wide = code_tile_panels(static_cast<int>(rows));
      if (wide == count) {
        forms.wide(product, row, panel, panel_step);
      } else if (wide / 2 == count) {
        forms.half(product, row, panel, panel_step);
      } else {
        for (int64_t p = 0; p < count; ++p) forms.narrow(product, row, panel + p * panel_step, 1);
      }
      row += rows;
    }
  };
  for (int64_t set = 0; set < sets; ++set) rows_times(set, side, sets);
  int64_t panel = sets * side;
  const int64_t half = side / 2;
  if (half > 1 && product.panels - panel >= half) {
    rows_times(panel, half, 1);
    panel += half;
  }
  for (; panel < product.panels; ++panel) rows_times(panel, 1, 1);
}

}  // namespace
}  // namespace bulkhead::kernels
