// The one matrix micro-kernel: a tile of rows times panels, weights widened in registers. Written
// over `Lines`, the order of the codes in lines of 64 bytes:
//   kStep              neighbouring k of a line, one code of each for 16 columns
//   widen<j>(line)     the 16 codes of the line's j-th k as floats
//   kByPanelRows       up to so many rows a line is done with before the next panel's begins
//   factors(p)         16 factors of a scale group
// Included after a vec_*.h, by ISA translation units only.
#pragma once

#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kPrefetchBytes = 4096;

struct Bf16Lines {
  static constexpr int64_t kStep = 2;
  static constexpr int kByPanelRows = 0;
  template <int kIndex>
  [[gnu::always_inline]] static Vec16 widen(const uint8_t* line) {
    const Pairs16 pairs = load_pairs(reinterpret_cast<const uint16_t*>(line));
    return kIndex == 0 ? widen_even(pairs) : widen_odd(pairs);
  }
  [[gnu::always_inline]] static Vec16 factors(const uint8_t* p) {
    return load16(reinterpret_cast<const float*>(p));
  }
};

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

// Where one run of a panel stands; null where there are no such runs.
[[gnu::always_inline]] inline const uint8_t* run_of(const void* const* runs,
                                                    const PanelProduct& product, int64_t run,
                                                    int64_t panel) {
  if (runs == nullptr) return nullptr;
  if (product.run_stride == 0) {
    return static_cast<const uint8_t*>(runs[run * product.panels + panel]);
  }
  return static_cast<const uint8_t*>(runs[panel]) + run * product.run_stride;
}

template <class Lines, int kRows, int kPanels>
struct Tile {
  // One or two streams that are multiplied by many rows: asking ahead gains 30-60 %. Where the tile
  // is all streaming (few rows, up to eight streams) the hardware does better alone, by 10-50 %.
  static constexpr bool kGainsAlong = kRows >= 4 && kPanels <= 2;
  static constexpr int64_t kStep = Lines::kStep;

  Vec16 acc[kRows][kPanels];

  [[gnu::always_inline]] static Vec16 start_of(const PanelProduct& product, int64_t row,
                                               int64_t panel) {
    return product.start == nullptr
               ? zero16()
               : load16(product.start + row * product.start_stride + panel * 16);
  }

  [[gnu::always_inline]] void load(const PanelProduct& product, int64_t row, int64_t panel,
                                   int64_t panel_step) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        acc[r][p] = start_of(product, row + r, panel + p * panel_step);
      }
    }
  }

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) acc[r][p] = zero16();
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

  // The sums of a scale group into c; the next group starts from zero.
  [[gnu::always_inline]] void settle(const PanelProduct& product, int64_t run, bool first,
                                     int64_t row, int64_t panel, int64_t panel_step) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const int64_t at = panel + p * panel_step;
      const Vec16 factors = Lines::factors(run_of(product.scales, product, run, at));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        float* c = product.c + (row + r) * product.c_stride + at * 16;
        store16(c, fma(acc[r][p], factors, first ? start_of(product, row + r, at) : load16(c)));
        acc[r][p] = zero16();
      }
    }
  }

  // The line's k number kIndex; the rows' pointers stand `shift` before it.
  template <int kIndex>
  [[gnu::always_inline]] void step(const RowPointers<kRows>& a, int64_t shift,
                                   const uint8_t* const (&lines)[kPanels]) {
    Vec16 w[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) w[p] = Lines::template widen<kIndex>(lines[p]);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) fma_row(acc[r], a.at(r, shift), w);
  }

  template <int kIndex = 0>
  [[gnu::always_inline]] void whole_line(const RowPointers<kRows>& a,
                                         const uint8_t* const (&lines)[kPanels]) {
    step<kIndex>(a, kIndex, lines);
    if constexpr (kIndex + 1 < kStep) {
      // The line is loaded again (from L1) rather than kept: the widest tile has no register for
      // it.
      if constexpr (kRows >= kReloadRows) asm volatile("" ::: "memory");
      whole_line<kIndex + 1>(a, lines);
    }
  }

  // The same of one panel alone.
  template <int kIndex = 0>
  [[gnu::always_inline]] void whole_line_of(int panel, const RowPointers<kRows>& a,
                                            const uint8_t* line) {
    const Vec16 w = Lines::template widen<kIndex>(line);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) fma_one(acc[r][panel], a.at(r, kIndex), w);
    if constexpr (kIndex + 1 < kStep) whole_line_of<kIndex + 1>(panel, a, line);
  }

  // `count` k of a line from number `first` on.
  template <int kIndex = 0>
  [[gnu::always_inline]] void part_of_line(const RowPointers<kRows>& a, int64_t first,
                                           int64_t count, const uint8_t* const (&lines)[kPanels]) {
    if (kIndex >= first && kIndex < first + count) step<kIndex>(a, kIndex - first, lines);
    if constexpr (kIndex + 1 < kStep) part_of_line<kIndex + 1>(a, first, count, lines);
  }

  // k in [begin, end) of one run; `row` points at the first row's k = 0 of that run.
  template <Fetch kFetch>
  [[gnu::always_inline]] void accumulate(const float* row, int64_t a_stride,
                                         const uint8_t* (&lines)[kPanels],
                                         const uint8_t* (&ahead)[kPanels], int64_t begin,
                                         int64_t end) {
    RowPointers<kRows> a(row + begin, a_stride);
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) lines[p] += begin / kStep * kLine;
    int64_t left = end - begin;
    if (begin % kStep != 0 && left > 0) {
      const int64_t first = begin % kStep;
      const int64_t count = left < kStep - first ? left : kStep - first;
      part_of_line(a, first, count, lines);
      a.advance(count);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) lines[p] += kLine;
      left -= count;
    }
    for (; left >= kStep; left -= kStep) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        if constexpr (kFetch == Fetch::kAhead) {
          prefetch(ahead[p]);
          ahead[p] += kLine;
        } else if constexpr (kFetch == Fetch::kAlong && kGainsAlong) {
          prefetch(lines[p] + kPrefetchBytes);
        }
      }
      if constexpr (kRows <= Lines::kByPanelRows) {
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) whole_line_of(p, a, lines[p]);
      } else {
        whole_line(a, lines);
      }
      a.advance(kStep);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) lines[p] += kLine;
    }
    if (left > 0) part_of_line(a, 0, left, lines);
  }
};

// Rows [row, row + kRows) times the kPanels panels `panel`, panel + panel_step, ...
template <class Lines, int kRows, int kPanels, Fetch kFetch>
void multiply_tile(const PanelProduct& product, int64_t row, int64_t panel, int64_t panel_step) {
  Tile<Lines, kRows, kPanels> tile;
  const bool scaled = product.scales != nullptr;
  if (scaled) {
    tile.clear();
  } else {
    tile.load(product, row, panel, panel_step);
  }
  const int64_t first_run = product.k_begin / product.run_k;
  for (int64_t run = first_run; run * product.run_k < product.k_end; ++run) {
    const int64_t base = run * product.run_k;
    const int64_t begin = product.k_begin > base ? product.k_begin - base : 0;
    const int64_t end = product.k_end - base < product.run_k ? product.k_end - base : product.run_k;
    const uint8_t* lines[kPanels];
    const uint8_t* ahead[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const int64_t at = panel + p * panel_step;
      lines[p] = run_of(product.runs, product, run, at);
      ahead[p] = kFetch == Fetch::kAhead ? run_of(product.ahead, product, run, at) : nullptr;
    }
    tile.template accumulate<kFetch>(product.a + row * product.a_stride + base, product.a_stride,
                                     lines, ahead, begin, end);
    if (scaled) tile.settle(product, run, run == first_run, row, panel, panel_step);
  }
  if (!scaled) tile.store(product, row, panel, panel_step);
}

using TileFn = void (*)(const PanelProduct& product, int64_t row, int64_t panel,
                        int64_t panel_step);
struct TileForms {
  TileFn wide[3];    // tile_panels(rows) panels; by Fetch
  TileFn narrow[3];  // one panel
};

template <class Lines, int kRows, int kPanels>
constexpr TileFn tile_form(Fetch fetch) {
  return fetch == Fetch::kAhead   ? multiply_tile<Lines, kRows, kPanels, Fetch::kAhead>
         : fetch == Fetch::kAlong ? multiply_tile<Lines, kRows, kPanels, Fetch::kAlong>
                                  : multiply_tile<Lines, kRows, kPanels, Fetch::kNothing>;
}

template <class Lines, int kRows>
constexpr TileForms tile_forms() {
  constexpr int kWide = tile_panels(kRows);
  return {
      {tile_form<Lines, kRows, kWide>(Fetch::kAhead), tile_form<Lines, kRows, kWide>(Fetch::kAlong),
       tile_form<Lines, kRows, kWide>(Fetch::kNothing)},
      {tile_form<Lines, kRows, 1>(Fetch::kAhead), tile_form<Lines, kRows, 1>(Fetch::kAlong),
       tile_form<Lines, kRows, 1>(Fetch::kNothing)}};
}

template <class Lines>
struct TilesOf {
  template <int... kRows>
  struct Table {
    static constexpr TileForms kForms[] = {tile_forms<Lines, kRows>()...};
    static_assert(sizeof...(kRows) == kMaxTileRows);
  };
  using Tiles = ForTileRows<Table>;
};

int64_t panels_at_once(int64_t rows) {
  return tile_panels(static_cast<int>(rows < kMaxTileRows ? rows : kMaxTileRows));
}

// All rows times `count` panels that stand `panel_step` apart, in tiles of nearly equal height: 8
// rows are 4 + 4, not 6 + 2.
template <class Lines>
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
    const TileForms& forms = TilesOf<Lines>::Tiles::kForms[rows - 1];
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

template <class Lines>
void multiply(const PanelProduct& product) {
  const int64_t tiles = (product.rows + kMaxTileRows - 1) / kMaxTileRows;
  const int64_t side = panels_at_once((product.rows + tiles - 1) / tiles);
  const int64_t groups = product.panels / side;
  // Panels of one group stand `groups` apart, so that each of its streams runs through memory that
  // the next group continues.
  for (int64_t group = 0; group < groups; ++group) {
    multiply_rows<Lines>(product, tiles, group, side, groups);
  }
  for (int64_t panel = groups * side; panel < product.panels; ++panel) {
    multiply_rows<Lines>(product, tiles, panel, 1, 1);
  }
}

}  // namespace
}  // namespace bulkhead::kernels
