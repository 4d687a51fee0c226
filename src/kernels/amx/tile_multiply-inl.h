// Tiling of a product over a tile unit. Included after a unit (class TileUnit), by the unit's
// translation unit only.
//
// A TileUnit has eight tiles of 16 rows x 64 bytes, named by template arguments, and:
//   zero<T>(), load<T>(p, stride_bytes), store<T>(p, stride_bytes), multiply<C, A, B>(),
//   and round32(in, out): 32 floats to BF16.
#pragma once

#include "kernels/amx/tile_ops.h"

namespace bulkhead::kernels {
namespace {

// Accumulators first, then A tiles, then B tiles: 2x2 uses all eight.
template <int kRowTiles, int kPanels>
struct TileBlock {
  static constexpr int kA = kRowTiles * kPanels;
  static constexpr int kB = kA + kRowTiles;
  static_assert(kB + kPanels <= 8);

  template <int kM, int kN>
  static bool whole(const TileProduct& p, int64_t row_tile, int64_t panel) {
    return (row_tile + kM + 1) * kTileRows <= p.rows && (panel + kN + 1) * 16 <= p.columns;
  }

  template <int kM, int kN>
  static void load_start(TileUnit& unit, const TileProduct& p, int64_t row_tile, int64_t panel) {
    constexpr int kC = kM * kPanels + kN;
    if (p.start == nullptr || p.scales != nullptr) {
      unit.template zero<kC>();
      return;
    }
    const float* from = p.start + (row_tile + kM) * kTileRows * p.start_stride + (panel + kN) * 16;
    if (whole<kM, kN>(p, row_tile, panel)) {
      // A stride of 0 repeats the bias in all rows.
      unit.template load<kC>(from, p.start_stride * 4);
      return;
    }
    alignas(64) float edge[kTileRows * 16] = {};
    const int64_t rows = p.rows - (row_tile + kM) * kTileRows;
    const int64_t columns = p.columns - (panel + kN) * 16;
    for (int64_t r = 0; r < kTileRows && r < rows; ++r) {
      for (int64_t i = 0; i < 16 && i < columns; ++i)
        edge[r * 16 + i] = from[r * p.start_stride + i];
    }
    unit.template load<kC>(edge, 64);
  }

  // The sums of a scale group into c.
  static void settle(const float* sums, const float* scales, int64_t rows, int64_t columns,
                     const float* from, const TileProduct& p, float* to) {
    for (int64_t r = 0; r < kTileRows && r < rows; ++r) {
      for (int64_t i = 0; i < 16 && i < columns; ++i) {
        const float start = from != nullptr ? from[r * p.start_stride + i] : 0.0f;
        to[r * p.c_stride + i] = __builtin_fmaf(sums[r * 16 + i], scales[i], start);
      }
    }
  }

  template <int kM, int kN>
  static void store_sum(TileUnit& unit, const TileProduct& p, int64_t row_tile, int64_t panel) {
    constexpr int kC = kM * kPanels + kN;
    float* to = p.c + (row_tile + kM) * kTileRows * p.c_stride + (panel + kN) * 16;
    if (p.scales == nullptr && whole<kM, kN>(p, row_tile, panel)) {
      unit.template store<kC>(to, p.c_stride * 4);
      return;
    }
    alignas(64) float edge[kTileRows * 16];
    unit.template store<kC>(edge, 64);
    const int64_t rows = p.rows - (row_tile + kM) * kTileRows;
    const int64_t columns = p.columns - (panel + kN) * 16;
    if (p.scales != nullptr) {
      const float* from = p.start;
      if (from != nullptr) from += (row_tile + kM) * kTileRows * p.start_stride + (panel + kN) * 16;
      settle(edge, p.scales + (panel + kN) * p.scale_stride, rows, columns, from, p, to);
      return;
    }
    for (int64_t r = 0; r < kTileRows && r < rows; ++r) {
      for (int64_t i = 0; i < 16 && i < columns; ++i) to[r * p.c_stride + i] = edge[r * 16 + i];
    }
  }

  // Calls body<m, n> for every tile of the block.
  template <typename Body>
  static void for_each_tile(Body body) {
    body.template operator()<0, 0>();
    if constexpr (kPanels > 1) body.template operator()<0, 1>();
    if constexpr (kPanels > 2) body.template operator()<0, 2>();
    if constexpr (kRowTiles > 1) {
      body.template operator()<1, 0>();
      if constexpr (kPanels > 1) body.template operator()<1, 1>();
    }
  }

  static void run(TileUnit& unit, const TileProduct& p, int64_t row_tile, int64_t panel) {
    for_each_tile([&]<int kM, int kN>() { load_start<kM, kN>(unit, p, row_tile, panel); });
    const int64_t a_step = p.a_k_tiles * kTileCodes;
    const uint16_t* a = p.a + row_tile * a_step;
    const uint16_t* w = p.w + panel * p.panel_stride;
    const int64_t w_begin = p.w_k_tile;
    for (int64_t k = p.k_tile_begin; k < p.k_tile_end; ++k) {
      for_each_tile([&]<int kM, int kN>() {
        if constexpr (kN == 0) unit.template load<kA + kM>(a + kM * a_step + k * kTileCodes, 64);
        if constexpr (kM == 0) {
          unit.template load<kB + kN>(w + kN * p.panel_stride + (k - w_begin) * kTileCodes, 64);
        }
        unit.template multiply<kM * kPanels + kN, kA + kM, kB + kN>();
      });
    }
    for_each_tile([&]<int kM, int kN>() { store_sum<kM, kN>(unit, p, row_tile, panel); });
  }
};

template <int kRowTiles, int kPanels>
void multiply_band(TileUnit& unit, const TileProduct& p, int64_t row_tile) {
  int64_t panel = 0;
  for (; panel + kPanels <= p.panels; panel += kPanels) {
    TileBlock<kRowTiles, kPanels>::run(unit, p, row_tile, panel);
  }
  for (; panel < p.panels; ++panel) TileBlock<kRowTiles, 1>::run(unit, p, row_tile, panel);
}

void multiply_tiles(const TileProduct& product) {
  TileUnit unit;
  const int64_t row_tiles = (product.rows + kTileRows - 1) / kTileRows;
  int64_t row_tile = 0;
  for (; row_tile + 2 <= row_tiles; row_tile += 2) multiply_band<2, 2>(unit, product, row_tile);
  if (row_tile < row_tiles) multiply_band<1, 3>(unit, product, row_tile);
}

void tile_rounds(int64_t rounds) {
  TileUnit unit;
  unit.template zero<4>();
  unit.template zero<5>();
  for (int64_t round = 0; round < rounds; ++round) {
    unit.template multiply<0, 4, 5>();
    unit.template multiply<1, 4, 5>();
    unit.template multiply<2, 4, 5>();
    unit.template multiply<3, 4, 5>();
  }
}

void round_rows(const float* a, int64_t a_stride, int64_t rows, int64_t k, uint16_t* out) {
  const int64_t k_tiles = (k + kTileK - 1) / kTileK;
  for (int64_t r = 0; r < kTileRows; ++r) {
    for (int64_t tile = 0; tile < k_tiles; ++tile) {
      uint16_t* to = out + tile * kTileCodes + r * kTileK;
      const int64_t left = k - tile * kTileK;
      if (r < rows && left >= kTileK) {
        TileUnit::round32(a + r * a_stride + tile * kTileK, to);
        continue;
      }
      float edge[kTileK] = {};
      for (int64_t i = 0; r < rows && i < kTileK && i < left; ++i) {
        edge[i] = a[r * a_stride + tile * kTileK + i];
      }
      TileUnit::round32(edge, to);
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
