#include "kernels/amx/gemm_tiles.h"

#include <algorithm>
#include <span>

#include "base/check.h"

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

// Panels [first, last) of the rows [row, row + rows).
void multiply_panels(const TileOps& ops, const GemmArgs& args, const Rounded& a, int64_t row,
                     int64_t rows, int64_t first, int64_t last) {
  const int64_t column = first * kPanelColumns;
  float* c = args.c + row * args.c_stride + column;
  const float* bias = args.bias != nullptr ? args.bias + column : nullptr;
  TileProduct product{.a = a.codes,
                      .a_k_tiles = a.k_tiles,
                      .rows = rows,
                      .w = nullptr,
                      .panel_stride = packed_pairs(args.w.k) * kPanelColumns * 2,
                      .panels = 0,
                      .columns = 0,
                      .k_tile_begin = 0,
                      .k_tile_end = 0,
                      .start = nullptr,
                      .start_stride = 0,
                      .c = nullptr,
                      .c_stride = args.c_stride};
  // Two panels at a time, and of those a stretch of k that stays in L1 for all row tiles; a single
  // band of rows reads every weight once and needs no stretch.
  const bool many = rows > 2 * kTileRows;
  const int64_t step = many ? 2 : last - first;
  const int64_t k_step = many ? kBlockKTiles : a.k_tiles;
  for (int64_t panel = first; panel < last; panel += step) {
    const int64_t offset = (panel - first) * kPanelColumns;
    product.w = args.w.data + panel * product.panel_stride;
    product.panels = std::min(step, last - panel);
    product.columns = std::min(product.panels * kPanelColumns, args.w.n - panel * kPanelColumns);
    product.c = c + offset;
    for (int64_t k = 0; k < a.k_tiles; k += k_step) {
      product.k_tile_begin = k;
      product.k_tile_end = std::min(k + k_step, a.k_tiles);
      const bool from_c = k > 0 || args.accumulate;
      product.start = from_c ? product.c : bias != nullptr ? bias + offset : nullptr;
      product.start_stride = from_c ? args.c_stride : 0;
      ops.multiply(product);
    }
  }
}

}  // namespace

void gemm(const TileOps& ops, const GemmArgs& args, device::ThreadPool& pool) {
  if (args.rows <= 0 || args.w.n <= 0) return;
  BH_CHECK(args.w.k > 0, "gemm over no k");
  BH_CHECK(!args.accumulate || args.bias == nullptr, "gemm starts from c or from a bias, not both");
  Rounded a{reinterpret_cast<uint16_t*>(pool.scratch(0).data()), ceil_div(args.w.k, kTileK)};
  // Shared by all workers during a run; worker 0 needs no scratch of its own.
  const int64_t row_tile_codes = a.k_tiles * kTileCodes;
  const auto fit =
      static_cast<int64_t>(pool.scratch(0).size() / sizeof(uint16_t)) / row_tile_codes * kTileRows;
  BH_CHECK(fit > 0, "a worker's scratch is too small for gemm");
  const int64_t block = std::min(fit, kBlockRows);
  const int64_t panels = packed_panels(args.w.n);
  const int64_t per_item =
      std::clamp<int64_t>(panels / (kItemsPerThread * pool.threads()), 1, kMaxItemPanels);
  for (int64_t row = 0; row < args.rows; row += block) {
    const int64_t rows = std::min(block, args.rows - row);
    pool.run(static_cast<size_t>(ceil_div(rows, kTileRows)), [&](size_t item, unsigned) {
      const int64_t first = static_cast<int64_t>(item) * kTileRows;
      ops.round_rows(args.a + (row + first) * args.a_stride, args.a_stride,
                     std::min(kTileRows, rows - first), args.w.k,
                     a.codes + static_cast<int64_t>(item) * row_tile_codes);
    });
    pool.run(static_cast<size_t>(ceil_div(panels, per_item)), [&](size_t item, unsigned) {
      const int64_t first = static_cast<int64_t>(item) * per_item;
      multiply_panels(ops, args, a, row, rows, first, std::min(panels, first + per_item));
    });
  }
}

}  // namespace bulkhead::kernels::amx
