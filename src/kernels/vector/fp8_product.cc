#include "kernels/vector/fp8_product.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/fp8_panels.h"

namespace bulkhead::kernels::vector {
namespace {

// Bytes of one k of a panel in BF16.
constexpr int64_t kExpandedKBytes = 32;

// Writes out what the product reads of one run, where the run's k = 0 stands at `out`.
void expand_run(const VectorOps& ops, const PanelProduct& product, int64_t run, const void* codes,
                const void* ahead, std::byte* out) {
  const int64_t base = run * product.run_k;
  const int64_t begin = std::max<int64_t>(product.k_begin - base, 0) / kFp8LineK;
  const int64_t end = (std::min(product.k_end - base, product.run_k) + kFp8LineK - 1) / kFp8LineK;
  const std::byte* from = static_cast<const std::byte*>(codes) + begin * kLineBytes;
  const void* next = ahead != nullptr ? ahead : from;
  ops.expand_fp8(from, end - begin, next, out + begin * kFp8LineK * kExpandedKBytes);
}

}  // namespace

int64_t expanded_bytes(int64_t k) { return kExpandedPanels * k * kExpandedKBytes; }

void multiply_fp8(const VectorOps& ops, const PanelProduct& product, std::byte* expanded) {
  if (product.rows <= 2 * ops.tile_rows) {
    ops.multiply_fp8(product);
    return;
  }
  const int64_t first_run = product.k_begin / product.run_k;
  const int64_t runs = (product.k_end + product.run_k - 1) / product.run_k;
  BH_CHECK(runs <= kExpandedRuns && product.run_stride == 0, "a product of few runs");
  const int64_t panel_bytes = runs * product.run_k * kExpandedKBytes;
  for (int64_t first = 0; first < product.panels; first += kExpandedPanels) {
    const int64_t count = std::min(kExpandedPanels, product.panels - first);
    std::array<const void*, kExpandedPanels * kExpandedRuns> lines{};
    std::array<const void*, kExpandedPanels * kExpandedRuns> scales{};
    for (int64_t run = first_run; run < runs; ++run) {
      for (int64_t p = 0; p < count; ++p) {
        const int64_t from = run * product.panels + first + p;
        const auto to = static_cast<size_t>(run * count + p);
        std::byte* out = expanded + p * panel_bytes + run * product.run_k * kExpandedKBytes;
        expand_run(ops, product, run, product.runs[from],
                   product.ahead != nullptr ? product.ahead[from] : nullptr, out);
        lines[to] = out;
        scales[to] = product.scales != nullptr ? product.scales[from] : nullptr;
      }
    }
    PanelProduct part = product;
    part.runs = lines.data();
    part.ahead = nullptr;
    part.scales = product.scales != nullptr ? scales.data() : nullptr;
    part.panels = count;
    if (part.start != nullptr) part.start += first * 16;
    part.c += first * 16;
    ops.multiply(part);
  }
}

}  // namespace bulkhead::kernels::vector
