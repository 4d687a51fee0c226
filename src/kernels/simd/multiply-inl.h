// The one matrix micro-kernel: a tile of rows times panels, weights widened in registers.
// Included after a vec_*.h, by ISA translation units only.
#pragma once

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

// One line (a k-pair of 16 columns) is 32 codes.
constexpr int64_t kLine = 32;
// Lines ahead of the use: 4 KiB.
constexpr int64_t kPrefetchLines = 64;

// The rows of a tile, three to a pointer: base, base + stride and base + 2 stride are addressing
// modes, so that twelve rows need five registers.
template <int kRows>
struct RowPointers {
  static constexpr int kBases = (kRows + 2) / 3;
  const float* base[kBases];
  int64_t stride;

  [[gnu::always_inline]] RowPointers(const float* row, int64_t row_stride) : stride(row_stride) {
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) base[i] = row + 3 * i * row_stride;
  }
  [[gnu::always_inline]] const float& at(int row, int64_t shift) const {
    return base[row / 3][row % 3 * stride + shift];
  }
  [[gnu::always_inline]] void advance(int64_t count) {
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) {
      base[i] += count;
      // Hides the pointer's origin: the optimiser would otherwise keep one pointer per row.
      asm("" : "+r"(base[i]));
    }
  }
};

// What a tile asks for while it multiplies: the lines at product.ahead, those further along its own
// streams, or (later tiles of rows, whose weights the first one brought in) nothing.
enum class Fetch { kAhead, kAlong, kNothing };

template <int kRows, int kPanels>
struct Tile {
  // One or two streams that are multiplied by many rows: asking ahead gains 30-60 %. Where the tile
  // is all streaming (few rows, up to eight streams) the hardware does better alone, by 10-50 %.
  static constexpr bool kGainsAlong = kRows >= 4 && kPanels <= 2;

  Vec16 acc[kRows][kPanels];

  [[gnu::always_inline]] void load(const PanelProduct& product, int64_t row, int64_t panel,
                                   int64_t panel_step) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        acc[r][p] = product.start == nullptr
                        ? zero16()
                        : load16(product.start + (row + r) * product.start_stride +
                                 (panel + p * panel_step) * 16);
      }
    }
  }

  [[gnu::always_inline]] void store(const PanelProduct& product, int64_t row, int64_t panel,
                                    int64_t panel_step) const {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        store16(product.c + (row + r) * product.c_stride + (panel + p * panel_step) * 16,
                acc[r][p]);
      }
    }
  }

  // One k: `w` holds the panels' weights, `shift` is 0 or 1 from where the rows' pointers stand.
  [[gnu::always_inline]] void step(const RowPointers<kRows>& a, int64_t shift,
                                   const Vec16 (&w)[kPanels]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) fma_row(acc[r], a.at(r, shift), w);
  }

  [[gnu::always_inline]] void step_even(const RowPointers<kRows>& a, int64_t shift,
                                        const uint16_t* const (&lines)[kPanels]) {
    Vec16 w[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) w[p] = widen_even(load_pairs(lines[p]));
    step(a, shift, w);
  }

  [[gnu::always_inline]] void step_odd(const RowPointers<kRows>& a, int64_t shift,
                                       const uint16_t* const (&lines)[kPanels]) {
    Vec16 w[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) w[p] = widen_odd(load_pairs(lines[p]));
    step(a, shift, w);
  }

  // k in [begin, end) of one run; `row` points at the first row's k = 0 of that run.
  template <Fetch kFetch>
  [[gnu::always_inline]] void accumulate(const float* row, int64_t a_stride,
                                         const uint16_t* (&lines)[kPanels],
                                         const uint16_t* (&ahead)[kPanels], int64_t begin,
                                         int64_t end) {
    RowPointers<kRows> a(row + begin, a_stride);
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) lines[p] += begin / 2 * kLine;
    int64_t left = end - begin;
    if (begin % 2 != 0 && left > 0) {
      step_odd(a, 0, lines);
      a.advance(1);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) lines[p] += kLine;
      --left;
    }
    for (; left >= 2; left -= 2) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        if constexpr (kFetch == Fetch::kAhead) {
          prefetch(ahead[p]);
          ahead[p] += kLine;
        } else if constexpr (kFetch == Fetch::kAlong && kGainsAlong) {
          prefetch(lines[p] + kPrefetchLines * kLine);
        }
      }
      step_even(a, 0, lines);
      // The line is loaded again (from L1) rather than kept: the widest tile has no register for
      // it.
      if (kReloadLines) asm volatile("" ::: "memory");
      step_odd(a, 1, lines);
      a.advance(2);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) lines[p] += kLine;
    }
    if (left > 0) step_even(a, 0, lines);
  }
};

// Rows [row, row + kRows) times the kPanels panels `panel`, panel + panel_step, ...
template <int kRows, int kPanels, Fetch kFetch>
void multiply_tile(const PanelProduct& product, int64_t row, int64_t panel, int64_t panel_step) {
  Tile<kRows, kPanels> tile;
  tile.load(product, row, panel, panel_step);
  const int64_t first_run = product.k_begin / product.run_k;
  for (int64_t run = first_run; run * product.run_k < product.k_end; ++run) {
    const int64_t base = run * product.run_k;
    const int64_t begin = product.k_begin > base ? product.k_begin - base : 0;
    const int64_t end = product.k_end - base < product.run_k ? product.k_end - base : product.run_k;
    const uint16_t* lines[kPanels];
    const uint16_t* ahead[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const int64_t index = run * product.panels + panel + p * panel_step;
      lines[p] = product.runs[index];
      ahead[p] = kFetch == Fetch::kAhead ? product.ahead[index] : nullptr;
    }
    tile.template accumulate<kFetch>(product.a + row * product.a_stride + base, product.a_stride,
                                     lines, ahead, begin, end);
  }
  tile.store(product, row, panel, panel_step);
}

using TileFn = void (*)(const PanelProduct& product, int64_t row, int64_t panel,
                        int64_t panel_step);
struct TileForms {
  TileFn wide[3];    // tile_panels(rows) panels; by Fetch
  TileFn narrow[3];  // one panel
};

template <int kRows, int kPanels>
constexpr TileFn tile_form(Fetch fetch) {
  return fetch == Fetch::kAhead   ? multiply_tile<kRows, kPanels, Fetch::kAhead>
         : fetch == Fetch::kAlong ? multiply_tile<kRows, kPanels, Fetch::kAlong>
                                  : multiply_tile<kRows, kPanels, Fetch::kNothing>;
}

template <int kRows>
constexpr TileForms tile_forms() {
  constexpr int kWide = tile_panels(kRows);
  return {{tile_form<kRows, kWide>(Fetch::kAhead), tile_form<kRows, kWide>(Fetch::kAlong),
           tile_form<kRows, kWide>(Fetch::kNothing)},
          {tile_form<kRows, 1>(Fetch::kAhead), tile_form<kRows, 1>(Fetch::kAlong),
           tile_form<kRows, 1>(Fetch::kNothing)}};
}

template <int... kRows>
struct TileTable {
  static constexpr TileForms kForms[] = {tile_forms<kRows>()...};
};
using Tiles = ForTileRows<TileTable>;
static_assert(sizeof(Tiles::kForms) / sizeof(TileForms) == kMaxTileRows);

int64_t panels_at_once(int64_t rows) {
  return tile_panels(static_cast<int>(rows < kMaxTileRows ? rows : kMaxTileRows));
}

// All rows times `count` panels that stand `panel_step` apart, in tiles of nearly equal height: 8
// rows are 4 + 4, not 6 + 2.
void multiply_rows(const PanelProduct& product, int64_t tiles, int64_t panel, int64_t count,
                   int64_t panel_step) {
  const int64_t height = product.rows / tiles;
  const int64_t higher = product.rows % tiles;
  int64_t row = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t rows = height + (tile < higher ? 1 : 0);
    const Fetch fetch = tile > 0                   ? Fetch::kNothing
                        : product.ahead != nullptr ? Fetch::kAhead
                                                   : Fetch::kAlong;
    const TileForms& forms = Tiles::kForms[rows - 1];
    if (count > 1 && tile_panels(static_cast<int>(rows)) == count) {
      forms.wide[static_cast<int>(fetch)](product, row, panel, panel_step);
    } else {
      for (int64_t p = 0; p < count; ++p) {
        forms.narrow[static_cast<int>(fetch)](product, row, panel + p * panel_step, 1);
      }
    }
    row += rows;
  }
}

void multiply(const PanelProduct& product) {
  const int64_t tiles = (product.rows + kMaxTileRows - 1) / kMaxTileRows;
  const int64_t side = panels_at_once((product.rows + tiles - 1) / tiles);
  const int64_t groups = product.panels / side;
  // Panels of one group stand `groups` apart, so that each of its streams runs through memory that
  // the next group continues.
  for (int64_t group = 0; group < groups; ++group) {
    multiply_rows(product, tiles, group, side, groups);
  }
  for (int64_t panel = groups * side; panel < product.panels; ++panel) {
    multiply_rows(product, tiles, panel, 1, 1);
  }
}

}  // namespace
}  // namespace bulkhead::kernels
