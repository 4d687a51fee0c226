#include "kernels/packed_weights.h"

namespace bulkhead::kernels {

void pack_rows(const quant::Bf16* source, int64_t row_begin, int64_t rows, int64_t k,
               quant::Bf16* packed) {
  const int64_t panel_elements = packed_pairs(k) * kPanelColumns * 2;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = row_begin + r;
    quant::Bf16* column = packed + n / kPanelColumns * panel_elements + n % kPanelColumns * 2;
    const quant::Bf16* row = source + r * k;
    const int64_t even = k / 2 * 2;
    for (int64_t i = 0; i < even; i += 2) {
      column[i * kPanelColumns] = row[i];
      column[i * kPanelColumns + 1] = row[i + 1];
    }
    if (even < k) column[even * kPanelColumns] = row[even];
  }
}

void unpack_row(const PackedWeights& weights, int64_t n, float* out) {
  const int64_t panel_elements = packed_pairs(weights.k) * kPanelColumns * 2;
  const quant::Bf16* column =
      weights.bf16() + n / kPanelColumns * panel_elements + n % kPanelColumns * 2;
  for (int64_t i = 0; i < weights.k; ++i) {
    out[i] = quant::bf16_to_float(column[i / 2 * kPanelColumns * 2 + i % 2]);
  }
}

}  // namespace bulkhead::kernels
