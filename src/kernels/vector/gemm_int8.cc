#include "kernels/vector/gemm_int8.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/int4_panels.h"

namespace bulkhead::kernels::vector {
namespace {

constexpr int64_t kBlockRows = 256;
constexpr int64_t kRowsPerRounding = 8;
constexpr int64_t kItemsPerThread = 8;
constexpr int64_t kMaxItemPanels = 32;
// A ragged panel's columns, at the front of each worker's scratch.
constexpr int64_t kBesideFloats = kBlockRows * kPanelColumns;
constexpr size_t kBesideBytes = kBesideFloats * sizeof(float);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Some rows of one product, rounded together.
struct Band {
  const GemmArgs* args = nullptr;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t groups = 0;
  float* scales = nullptr;
  int32_t* offsets = nullptr;
  int8_t* codes = nullptr;
  int64_t panels_per_item = 1;
  int64_t round_end = 0;  // of all bands' roundings up to this one
  int64_t item_end = 0;   // of all bands' items up to this one
};

void round_rows(const VectorOps& ops, const Band& band, int64_t first) {
  const int64_t last = std::min(first + kRowsPerRounding, band.rows);
  for (int64_t r = first; r < last; ++r) {
    const int64_t at = r * band.groups;
    ops.quantise_row(band.args->a + (band.row + r) * band.args->a_stride, band.args->w.k,
                     band.codes + at * kInt4GroupK, band.scales + at, band.offsets + at);
  }
}

Int8Product product_of(const Band& band) {
  Int8Product product;
  product.a = band.codes;
  product.scales = band.scales;
  product.offsets = band.offsets;
  product.groups = band.groups;
  product.rows = band.rows;
  return product;
}

// The last panel where n is no multiple of 16: computed beside c, then its real columns copied.
void multiply_ragged(const VectorOps& ops, const Band& band, const uint8_t* codes, float* beside) {
  const GemmArgs& args = *band.args;
  const int64_t column = args.w.n / kPanelColumns * kPanelColumns;
  const int64_t columns = args.w.n - column;
  float* c = args.c + band.row * args.c_stride + column;
  std::fill_n(beside, band.rows * kPanelColumns, 0.0f);
  for (int64_t r = 0; r < band.rows; ++r) {
    const float* from = args.accumulate ? c + r * args.c_stride : nullptr;
    if (args.bias != nullptr) from = args.bias + column;
    if (from != nullptr) std::copy_n(from, columns, beside + r * kPanelColumns);
  }
  Int8Product product = product_of(band);
  product.codes = &codes;
  product.panels = 1;
  product.start = beside;
  product.start_stride = kPanelColumns;
  product.c = beside;
  product.c_stride = kPanelColumns;
  ops.multiply_int8(product);
  for (int64_t r = 0; r < band.rows; ++r) {
    std::copy_n(beside + r * kPanelColumns, columns, c + r * args.c_stride);
  }
}

void multiply_panels(const VectorOps& ops, const Band& band, int64_t first, float* beside) {
  const GemmArgs& args = *band.args;
  const int64_t last = std::min(packed_panels(args.w.n), first + band.panels_per_item);
  const int64_t whole = std::min(last, args.w.n / kPanelColumns);
  const int64_t panel_bytes = int4_panel_bytes(args.w.k);
  std::array<const uint8_t*, kMaxItemPanels> codes;
  for (int64_t panel = first; panel < last; ++panel) {
    codes[static_cast<size_t>(panel - first)] =
        reinterpret_cast<const uint8_t*>(args.w.data + panel * panel_bytes);
  }
  if (whole > first) {
    Int8Product product = product_of(band);
    product.codes = codes.data();
    product.panels = whole - first;
    product.c = args.c + band.row * args.c_stride + first * kPanelColumns;
    product.c_stride = args.c_stride;
    product.start = args.bias != nullptr ? args.bias + first * kPanelColumns : nullptr;
    if (args.accumulate) {
      product.start = product.c;
      product.start_stride = args.c_stride;
    }
    ops.multiply_int8(product);
  }
  if (whole < last) multiply_ragged(ops, band, codes[static_cast<size_t>(whole - first)], beside);
}

// Bands that are rounded in one hand-out and multiplied in the next; the codes stand in the scratch
// of worker 0 and are shared by all during a run.
class Turn {
 public:
  Turn(const VectorOps& ops, device::ThreadPool& pool) : ops_(ops), pool_(pool) {}

  // Rows of `args` from `row` on that still fit, at most a block.
  int64_t room(const GemmArgs& args, int64_t row) const {
    const std::span<std::byte> scratch = pool_.scratch(0);
    BH_CHECK(scratch.size() > kBesideBytes, "a worker's scratch is too small for gemm");
    const auto left = static_cast<int64_t>(scratch.size() - kBesideBytes) - used_;
    if (count_ == kGemmGroupMax) return 0;
    return std::min({left / row_bytes(args), kBlockRows, args.rows - row});
  }

  void add(const GemmArgs& args, int64_t row, int64_t rows, int64_t products) {
    Band& band = bands_[count_];
    const Band* before = count_ > 0 ? &bands_[count_ - 1] : nullptr;
    const int64_t panels = packed_panels(args.w.n);
    std::byte* at = pool_.scratch(0).data() + kBesideBytes + used_;
    band.args = &args;
    band.row = row;
    band.rows = rows;
    band.groups = int4_groups(args.w.k);
    band.scales = reinterpret_cast<float*>(at);
    band.offsets = reinterpret_cast<int32_t*>(band.scales + rows * band.groups);
    band.codes = reinterpret_cast<int8_t*>(band.offsets + rows * band.groups);
    band.panels_per_item = std::clamp<int64_t>(
        panels * products / (kItemsPerThread * pool_.threads()), 1, kMaxItemPanels);
    band.round_end = (before != nullptr ? before->round_end : 0) + ceil_div(rows, kRowsPerRounding);
    band.item_end =
        (before != nullptr ? before->item_end : 0) + ceil_div(panels, band.panels_per_item);
    used_ += rows * row_bytes(args);
    ++count_;
  }

  void run() {
    if (count_ == 0) return;
    const std::span<const Band> bands(bands_.data(), count_);
    pool_.run(static_cast<size_t>(bands.back().round_end), [&](size_t item, unsigned) {
      const auto [band, index] = find(bands, static_cast<int64_t>(item), &Band::round_end);
      round_rows(ops_, *band, index * kRowsPerRounding);
    });
    pool_.run(static_cast<size_t>(bands.back().item_end), [&](size_t item, unsigned worker) {
      const auto [band, index] = find(bands, static_cast<int64_t>(item), &Band::item_end);
      multiply_panels(ops_, *band, index * band->panels_per_item,
                      reinterpret_cast<float*>(pool_.scratch(worker).data()));
    });
    count_ = 0;
    used_ = 0;
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
  static int64_t row_bytes(const GemmArgs& args) {
    constexpr auto kGroupBytes =
        kInt4GroupK + static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
    return int4_groups(args.w.k) * kGroupBytes;
  }

  const VectorOps& ops_;
  device::ThreadPool& pool_;
  std::array<Band, kGemmGroupMax> bands_;
  size_t count_ = 0;
  int64_t used_ = 0;  // bytes of scratch
};

}  // namespace

void gemm_group_int8(const VectorOps& ops, std::span<const GemmArgs> group,
                     device::ThreadPool& pool) {
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

}  // namespace bulkhead::kernels::vector
