#include "kernels/vector/gemm_int8.h"

#include <algorithm>
#include <array>

#include "kernels/int4_panels.h"
#include "kernels/rounded_gemm.h"

namespace bulkhead::kernels::vector {
namespace {

struct Codes {
  int64_t groups = 0;
  float* scales = nullptr;
  int32_t* offsets = nullptr;
  int8_t* codes = nullptr;
};
using Band = RowBand<Codes>;

Int8Product product_of(const Band& band) {
  Int8Product product;
  product.a = band.a.codes;
  product.scales = band.a.scales;
  product.offsets = band.a.offsets;
  product.groups = band.a.groups;
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

void multiply_panels(const VectorOps& ops, const Band& band, int64_t first, int64_t last,
                     float* beside) {
  const GemmArgs& args = *band.args;
  const int64_t whole = std::min(last, args.w.n / kPanelColumns);
  const int64_t panel_bytes = int4_panel_bytes(args.w.k);
  std::array<const uint8_t*, kBandItemPanels> codes;
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

// Rows as bytes, a scale and an offset for each group.
struct BytesForm {
  using Rounded = Codes;
  // A ragged panel's columns.
  static constexpr int64_t kFrontBytes = kBandRows * kPanelColumns * int64_t{sizeof(float)};
  static constexpr int64_t kTurnRows = kBandRows * int64_t{kGemmGroupMax};
  static constexpr int64_t kUnitRows = 1;
  static constexpr int64_t kRowsPerRounding = 8;

  const VectorOps& ops;

  int64_t unit_bytes(const GemmArgs& args) const {
    constexpr auto kGroupBytes =
        kInt4GroupK + static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
    return int4_groups(args.w.k) * kGroupBytes;
  }
  Codes place(const GemmArgs& args, int64_t rows, std::byte* at) const {
    Codes out;
    out.groups = int4_groups(args.w.k);
    out.scales = reinterpret_cast<float*>(at);
    out.offsets = reinterpret_cast<int32_t*>(out.scales + rows * out.groups);
    out.codes = reinterpret_cast<int8_t*>(out.offsets + rows * out.groups);
    return out;
  }
  void round(const Band& band, int64_t first) const {
    const int64_t last = std::min(first + kRowsPerRounding, band.rows);
    for (int64_t r = first; r < last; ++r) {
      const int64_t at = r * band.a.groups;
      ops.quantise_row(band.args->a + (band.row + r) * band.args->a_stride, band.args->w.k,
                       band.a.codes + at * kInt4GroupK, band.a.scales + at, band.a.offsets + at);
    }
  }
  void multiply(const Band& band, int64_t first, int64_t last, std::span<std::byte> scratch) const {
    multiply_panels(ops, band, first, last, reinterpret_cast<float*>(scratch.data()));
  }
};

}  // namespace

void gemm_group_int8(const VectorOps& ops, std::span<const GemmArgs> group,
                     device::ThreadPool& pool) {
  multiply_rounded(BytesForm{ops}, group, pool);
}

}  // namespace bulkhead::kernels::vector
