#include "kernels/amx/gemm_tiles.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "kernels/fp8_panels.h"
#include "kernels/int4_panels.h"

namespace bulkhead::kernels::amx {
namespace {

// 256 rows x 2048 k of rounded activations are 1 MiB: half of an L2 of the machines that have
// tiles.
constexpr int64_t kBlockRows = 256;
// 512 k of two panels are 32 KiB of L1 while many row tiles pass over them.
constexpr int64_t kBlockKTiles = 16;
constexpr int64_t kItemsPerThread = 8;
constexpr int64_t kMaxItemPanels = 32;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

// Some rows of one product, rounded together.
struct Band {
  const GemmArgs* args = nullptr;
  int64_t row = 0;
  int64_t rows = 0;
  Rounded a;
  int64_t panels_per_item = 1;
  int64_t round_end = 0;  // of all bands' row tiles up to this one
  int64_t item_end = 0;   // of all bands' items up to this one
};

// Bands that are rounded in one hand-out and multiplied in the next. The codes are shared by all
// workers during a run; worker 0 needs no scratch of its own.
class Turn {
 public:
  Turn(const TileOps& ops, device::ThreadPool& pool) : ops_(ops), pool_(pool) {}

  // Rows of `args` from `row` on that still fit, at most a block.
  int64_t room(const GemmArgs& args, int64_t row) const {
    const auto total = static_cast<int64_t>(pool_.scratch(0).size() / sizeof(uint16_t));
    const int64_t tiles = (total - used_) / row_tile_codes(args);
    const int64_t left = kBlockRows - rows_ % kBlockRows;
    if (count_ == kGemmGroupMax || rows_ >= kBlockRows) return 0;
    return std::min({tiles * kTileRows, left, args.rows - row});
  }

  void add(const GemmArgs& args, int64_t row, int64_t rows, int64_t products) {
    Band& band = bands_[count_];
    const int64_t panels = packed_panels(args.w.n);
    band.args = &args;
    band.row = row;
    band.rows = rows;
    band.a = {reinterpret_cast<uint16_t*>(pool_.scratch(0).data()) + used_,
              ceil_div(args.w.k, kTileK)};
    band.panels_per_item = std::clamp<int64_t>(
        panels * products / (kItemsPerThread * pool_.threads()), 1, kMaxItemPanels);
    const Band* before = count_ > 0 ? &bands_[count_ - 1] : nullptr;
    const int64_t tiles = ceil_div(rows, kTileRows);
    band.round_end = (before != nullptr ? before->round_end : 0) + tiles;
    band.item_end =
        (before != nullptr ? before->item_end : 0) + ceil_div(panels, band.panels_per_item);
    used_ += tiles * row_tile_codes(args);
    rows_ += rows;
    ++count_;
  }

  void run() {
    if (count_ == 0) return;
    const std::span<const Band> bands(bands_.data(), count_);
    pool_.run(static_cast<size_t>(bands.back().round_end), [&](size_t item, unsigned) {
      const auto [band, tile] = find(bands, static_cast<int64_t>(item), &Band::round_end);
      const GemmArgs& args = *band->args;
      const int64_t first = tile * kTileRows;
      ops_.round_rows(args.a + (band->row + first) * args.a_stride, args.a_stride,
                      std::min(kTileRows, band->rows - first), args.w.k,
                      band->a.codes + tile * row_tile_codes(args));
    });
    pool_.run(static_cast<size_t>(bands.back().item_end), [&](size_t item, unsigned) {
      const auto [band, index] = find(bands, static_cast<int64_t>(item), &Band::item_end);
      const int64_t first = index * band->panels_per_item;
      const int64_t last = std::min(packed_panels(band->args->w.n), first + band->panels_per_item);
      multiply_panels(ops_, *band->args, band->a, band->row, band->rows, first, last);
    });
    count_ = 0;
    used_ = rows_ = 0;
  }

 private:
  struct Found {
    const Band* band;
    int64_t index;  // inside the band
  };
  static Found find(std::span<const Band> bands, int64_t item, int64_t Band::* end) {
    const auto at = std::ranges::upper_bound(bands, item, {}, end);
    return {&*at, at == bands.begin() ? item : item - (*(at - 1)).*end};
  }
  static int64_t row_tile_codes(const GemmArgs& args) {
    return ceil_div(args.w.k, kTileK) * kTileCodes;
  }

  const TileOps& ops_;
  device::ThreadPool& pool_;
  std::array<Band, kGemmGroupMax> bands_;
  size_t count_ = 0;
  int64_t used_ = 0;  // codes of scratch
  int64_t rows_ = 0;
};

}  // namespace

void gemm_group(const TileOps& ops, std::span<const GemmArgs> group, device::ThreadPool& pool) {
  const auto products = static_cast<int64_t>(
      std::ranges::count_if(group, [](const GemmArgs& args) { return args.rows > 0; }));
  Turn turn(ops, pool);
  for (const GemmArgs& args : group) {
    if (args.rows <= 0 || args.w.n <= 0) continue;
    BH_CHECK(args.w.k > 0, "gemm over no k");
    BH_CHECK(!args.accumulate || args.bias == nullptr,
             "gemm starts from c or from a bias, not both");
    for (int64_t row = 0; row < args.rows;) {
      int64_t rows = turn.room(args, row);
      if (rows <= 0) {
        turn.run();
        rows = turn.room(args, row);
      }
      BH_CHECK(rows > 0, "a worker's scratch is too small for gemm");
      turn.add(args, row, rows, products);
      row += rows;
    }
  }
  turn.run();
}

void gemm(const TileOps& ops, const GemmArgs& args, device::ThreadPool& pool) {
  gemm_group(ops, {&args, 1}, pool);
}

}  // namespace bulkhead::kernels::amx
