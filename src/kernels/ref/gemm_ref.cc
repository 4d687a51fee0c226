#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace bulkhead::kernels::ref {
namespace {

float start_value(const GemmArgs& args, int64_t row, int64_t n) {
  if (args.accumulate) return args.c[row * args.c_stride + n];
  return args.bias != nullptr ? args.bias[n] : 0.0f;
}

}  // namespace

void gemm(const GemmArgs& args, device::ThreadPool& pool) {
  const int64_t panel_elements = packed_pairs(args.w.k) * kPanelColumns * 2;
  const int64_t panels = packed_panels(args.w.n);
  pool.run(static_cast<size_t>(panels), [&](size_t item, unsigned) {
    const auto panel = static_cast<int64_t>(item);
    const quant::Bf16* w = args.w.bf16() + panel * panel_elements;
    const int64_t first = panel * kPanelColumns;
    const int64_t columns = std::min(kPanelColumns, args.w.n - first);
    for (int64_t row = 0; row < args.rows; ++row) {
      const float* a = args.a + row * args.a_stride;
      for (int64_t column = 0; column < columns; ++column) {
        float sum = start_value(args, row, first + column);
        for (int64_t k = 0; k < args.w.k; ++k) {
          const quant::Bf16 code = w[k / 2 * kPanelColumns * 2 + column * 2 + k % 2];
          sum = std::fma(a[k], quant::bf16_to_float(code), sum);
        }
        args.c[row * args.c_stride + first + column] = sum;
      }
    }
  });
}

void gemm_group(std::span<const GemmArgs> group, device::ThreadPool& pool) {
  for (const GemmArgs& args : group) gemm(args, pool);
}

}  // namespace bulkhead::kernels::ref
