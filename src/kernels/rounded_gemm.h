// Products whose activations are rounded first, to tiles or to bytes: rows are rounded in one
// hand-out and multiplied in the next, as many products at a time as fit the scratch.
//
// Threads: as gemm.h says. Invariants: the rounded rows stand in the scratch of worker 0, behind
// kFrontBytes of it, and are shared by all workers during a run; how rows are cut into bands and
// panels into items never shows in a result.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "device/thread_pool.h"
#include "kernels/gemm.h"
#include "kernels/packed_weights.h"

namespace bulkhead::kernels {

// The most rows that are rounded together.
inline constexpr int64_t kBandRows = 256;
// The most panels of one item.
inline constexpr int64_t kBandItemPanels = 32;

// Some rows of one product, rounded together.
template <typename Rounded>
struct RowBand {
  const GemmArgs* args = nullptr;
  int64_t row = 0;
  int64_t rows = 0;
  Rounded a = {};
  int64_t panels_per_item = 1;
  int64_t round_end = 0;  // of all bands' roundings up to this one
  int64_t item_end = 0;   // of all bands' items up to this one
};

// Bands that are handed out together. A Form says what rows are rounded to:
//   Rounded                       where a band's rounded rows stand
//   kFrontBytes                   of every worker's scratch that multiply() needs for itself
//   kTurnRows                     the most rows of all bands together
//   kUnitRows, unit_bytes(args)   what so many rows take
//   kRowsPerRounding              of one item of the first hand-out
//   place(args, rows, at)         the Rounded of rows whose memory begins at `at`
//   round(band, first)            rounds kRowsPerRounding rows of the band, or what is left
//   multiply(band, first, last, scratch)   panels [first, last), at most kBandItemPanels
template <typename Form>
class RoundedTurn {
 public:
  using Band = RowBand<typename Form::Rounded>;

  RoundedTurn(const Form& form, device::ThreadPool& pool) : form_(form), pool_(pool) {}

  // Rows of `args` from `row` on that still fit; none: run() first.
  int64_t room(const GemmArgs& args, int64_t row) const {
    if (count_ == kGemmGroupMax) return 0;
    const auto left =
        static_cast<int64_t>(pool_.scratch(0).size()) - Form::kFrontBytes - used_bytes_;
    return std::min({left / form_.unit_bytes(args) * Form::kUnitRows, kBandRows,
                     Form::kTurnRows - used_rows_, args.rows - row});
  }

  // For one of `products` products that are dealt out together.
  void add(const GemmArgs& args, int64_t row, int64_t rows, int64_t products) {
    constexpr int64_t kItemsPerThread = 8;
    const Band before = count_ > 0 ? bands_[count_ - 1] : Band{};
    const int64_t panels = packed_panels(args.w.n);
    Band& band = bands_[count_];
    band.args = &args;
    band.row = row;
    band.rows = rows;
    band.a = form_.place(args, rows, pool_.scratch(0).data() + Form::kFrontBytes + used_bytes_);
    band.panels_per_item = whole_sets(std::clamp<int64_t>(
        panels * products / (kItemsPerThread * pool_.threads()), 1, kBandItemPanels));
    band.round_end = before.round_end + ceil_div(rows, Form::kRowsPerRounding);
    band.item_end = before.item_end + ceil_div(panels, band.panels_per_item);
    used_bytes_ += ceil_div(rows, Form::kUnitRows) * form_.unit_bytes(args);
    used_rows_ += rows;
    ++count_;
  }

  void run() {
    if (count_ == 0) return;
    const std::span<const Band> bands(bands_.data(), count_);
    pool_.run(static_cast<size_t>(bands.back().round_end), [&](size_t item, unsigned) {
      const auto [band, index] = find(bands, static_cast<int64_t>(item), &Band::round_end);
      form_.round(*band, index * Form::kRowsPerRounding);
    });
    pool_.run(static_cast<size_t>(bands.back().item_end), [&](size_t item, unsigned worker) {
      const auto [band, index] = find(bands, static_cast<int64_t>(item), &Band::item_end);
      const int64_t first = index * band->panels_per_item;
      const int64_t last = std::min(packed_panels(band->args->w.n), first + band->panels_per_item);
      form_.multiply(*band, first, last, pool_.scratch(worker));
    });
    count_ = 0;
    used_bytes_ = used_rows_ = 0;
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
  // Panels are worked on side by side, up to eight: items that leave some over are slower.
  static int64_t whole_sets(int64_t panels) {
    if (panels >= 8) return panels / 8 * 8;
    return panels >= 4 ? 4 : panels >= 2 ? 2 : 1;
  }
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

  const Form& form_;
  device::ThreadPool& pool_;
  std::array<Band, kGemmGroupMax> bands_;
  size_t count_ = 0;
  int64_t used_bytes_ = 0;  // of scratch
  int64_t used_rows_ = 0;
};

template <typename Form>
void multiply_rounded(const Form& form, std::span<const GemmArgs> group, device::ThreadPool& pool) {
  const auto products = static_cast<int64_t>(
      std::ranges::count_if(group, [](const GemmArgs& args) { return args.rows > 0; }));
  RoundedTurn<Form> turn(form, pool);
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

}  // namespace bulkhead::kernels
