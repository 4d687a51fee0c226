#include "kernels/amx/gemm_tiles.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "kernels/fp8_panels.h"
#include "kernels/int4_panels.h"
#include "kernels/rounded_gemm.h"

namespace bulkhead::kernels::amx {
namespace {

// 512 k of two panels are 32 KiB of L1 while many row tiles pass over them.
constexpr int64_t kBlockKTiles = 16;

int64_t k_tiles(int64_t k) { return (k + kTileK - 1) / kTileK; }

struct Rounded {
  uint16_t* codes = nullptr;
  int64_t k_tiles = 0;
};

// What all formats share: rows [row, row + rows) and the columns from panel `panel` on.
TileProduct product_of(const GemmArgs& args, const Rounded& a, int64_t row, int64_t rows,
                       int64_t panel, int64_t panels) {
  TileProduct product;
  product.a = a.codes;
  product.a_k_tiles = a.k_tiles;
  product.rows = rows;
  product.panels = panels;
  product.columns = std::min(panels * kPanelColumns, args.w.n - panel * kPanelColumns);
  product.c = args.c + row * args.c_stride + panel * kPanelColumns;
  product.c_stride = args.c_stride;
  return product;
}

// Takes the sums from where they stand after `k_tile` k tiles.
void start_at(TileProduct& product, const GemmArgs& args, int64_t panel, int64_t k_tile) {
  const bool from_c = k_tile > 0 || args.accumulate;
  const float* bias = args.bias != nullptr ? args.bias + panel * kPanelColumns : nullptr;
  product.start = from_c ? product.c : bias;
  product.start_stride = from_c ? args.c_stride : 0;
}

// Panels [first, last) of the rows [row, row + rows).
void multiply_bf16(const TileOps& ops, const GemmArgs& args, const Rounded& a, int64_t row,
                   int64_t rows, int64_t first, int64_t last) {
  // Two panels at a time, and of those a stretch of k that stays in L1 for all row tiles; a single
  // band of rows reads every weight once and needs no stretch.
  const bool many = rows > 2 * kTileRows;
  const int64_t step = many ? 2 : last - first;
  const int64_t k_step = many ? kBlockKTiles : a.k_tiles;
  for (int64_t panel = first; panel < last; panel += step) {
    TileProduct product = product_of(args, a, row, rows, panel, std::min(step, last - panel));
    product.panel_stride = packed_pairs(args.w.k) * kPanelColumns * 2;
    product.w = args.w.bf16() + panel * product.panel_stride;
    for (int64_t k = 0; k < a.k_tiles; k += k_step) {
      product.k_tile_begin = k;
      product.k_tile_end = std::min(k + k_step, a.k_tiles);
      start_at(product, args, panel, k);
      ops.multiply(product);
    }
  }
}

// The same over FP8: a scale group of two panels is written out as BF16, in L1 for all row tiles.
void multiply_fp8(const TileOps& ops, const GemmArgs& args, const Rounded& a, int64_t row,
                  int64_t rows, int64_t first, int64_t last) {
  constexpr int64_t kGroupTiles = kFp8GroupK / kTileK;
  constexpr int64_t kStep = 2;
  alignas(64) std::array<uint16_t, kStep * kGroupTiles * kTileCodes> expanded;
  const int64_t panel_bytes = fp8_panel_bytes(args.w.k);
  for (int64_t panel = first; panel < last; panel += kStep) {
    TileProduct product = product_of(args, a, row, rows, panel, std::min(kStep, last - panel));
    product.w = expanded.data();
    product.panel_stride = kGroupTiles * kTileCodes;
    product.scale_stride = panel_bytes / static_cast<int64_t>(sizeof(float));
    const std::byte* group = args.w.data + panel * panel_bytes;
    for (int64_t k = 0; k < a.k_tiles; k += kGroupTiles, group += kFp8GroupBytes) {
      const int64_t tiles = std::min(kGroupTiles, a.k_tiles - k);
      for (int64_t p = 0; p < product.panels; ++p) {
        const std::byte* lines = group + p * panel_bytes + kLineBytes;
        ops.expand_fp8(lines, tiles * kFp8LinesAlign, lines + kFp8GroupBytes,
                       expanded.data() + p * product.panel_stride);
      }
      product.scales = reinterpret_cast<const float*>(group);
      product.w_k_tile = k;
      product.k_tile_begin = k;
      product.k_tile_end = k + tiles;
      start_at(product, args, panel, k);
      ops.multiply(product);
    }
  }
}

// The same over INT4: a stretch of two panels is written out as BF16 of code times scale.
void multiply_int4(const TileOps& ops, const GemmArgs& args, const Rounded& a, int64_t row,
                   int64_t rows, int64_t first, int64_t last) {
  static_assert(kInt4GroupK == kTileK && kBlockKTiles % 2 == 0);
  constexpr int64_t kStep = 2;
  constexpr int64_t kStretchBytes = kBlockKTiles / 2 * kInt4BlockBytes;
  alignas(64) std::array<uint16_t, kStep * kBlockKTiles * kTileCodes> expanded;
  const int64_t panel_bytes = int4_panel_bytes(args.w.k);
  for (int64_t panel = first; panel < last; panel += kStep) {
    TileProduct product = product_of(args, a, row, rows, panel, std::min(kStep, last - panel));
    product.w = expanded.data();
    product.panel_stride = kBlockKTiles * kTileCodes;
    const std::byte* stretch = args.w.data + panel * panel_bytes;
    for (int64_t k = 0; k < a.k_tiles; k += kBlockKTiles, stretch += kStretchBytes) {
      const int64_t tiles = std::min(kBlockKTiles, a.k_tiles - k);
      for (int64_t p = 0; p < product.panels; ++p) {
        ops.expand_int4(reinterpret_cast<const uint8_t*>(stretch + p * panel_bytes), tiles,
                        expanded.data() + p * product.panel_stride);
      }
      product.w_k_tile = k;
      product.k_tile_begin = k;
      product.k_tile_end = k + tiles;
      start_at(product, args, panel, k);
      ops.multiply(product);
    }
  }
}

void multiply_panels(const TileOps& ops, const GemmArgs& args, const Rounded& a, int64_t row,
                     int64_t rows, int64_t first, int64_t last) {
  switch (args.w.format) {
    case WeightFormat::kBf16:
      return multiply_bf16(ops, args, a, row, rows, first, last);
    case WeightFormat::kFp8:
      return multiply_fp8(ops, args, a, row, rows, first, last);
    case WeightFormat::kInt4:
      return multiply_int4(ops, args, a, row, rows, first, last);
  }
  BH_CHECK(false, "a weight format that is multiplied");
}

// Rows as tiles of BF16.
struct TilesForm {
  using Rounded = amx::Rounded;
  using Band = RowBand<Rounded>;
  static constexpr int64_t kFrontBytes = 0;
  // 256 rows x 2048 k of rounded activations are 1 MiB: half of an L2 of the machines that have
  // tiles.
  static constexpr int64_t kTurnRows = kBandRows;
  static constexpr int64_t kUnitRows = kTileRows;
  static constexpr int64_t kRowsPerRounding = kTileRows;

  const TileOps& ops;

  static int64_t row_tile_codes(const GemmArgs& args) { return k_tiles(args.w.k) * kTileCodes; }
  int64_t unit_bytes(const GemmArgs& args) const {
    return row_tile_codes(args) * static_cast<int64_t>(sizeof(uint16_t));
  }
  Rounded place(const GemmArgs& args, int64_t /*rows*/, std::byte* at) const {
    return {reinterpret_cast<uint16_t*>(at), k_tiles(args.w.k)};
  }
  void round(const Band& band, int64_t first) const {
    const GemmArgs& args = *band.args;
    ops.round_rows(args.a + (band.row + first) * args.a_stride, args.a_stride,
                   std::min(kTileRows, band.rows - first), args.w.k,
                   band.a.codes + first / kTileRows * row_tile_codes(args));
  }
  void multiply(const Band& band, int64_t first, int64_t last, std::span<std::byte>) const {
    multiply_panels(ops, *band.args, band.a, band.row, band.rows, first, last);
  }
};

}  // namespace

void gemm_group(const TileOps& ops, std::span<const GemmArgs> group, device::ThreadPool& pool) {
  multiply_rounded(TilesForm{ops}, group, pool);
}

void gemm(const TileOps& ops, const GemmArgs& args, device::ThreadPool& pool) {
  gemm_group(ops, {&args, 1}, pool);
}

}  // namespace bulkhead::kernels::amx
