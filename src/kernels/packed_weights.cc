#include "kernels/packed_weights.h"

#include "base/check.h"
#include "kernels/fp8_panels.h"
#include "kernels/int4_panels.h"

namespace bulkhead::kernels {
namespace {

void unpack_row_bf16(const PackedWeights& weights, int64_t n, float* out) {
  const int64_t panel_elements = packed_pairs(weights.k) * kPanelColumns * 2;
  const quant::Bf16* column =
      weights.bf16() + n / kPanelColumns * panel_elements + n % kPanelColumns * 2;
  for (int64_t i = 0; i < weights.k; ++i) {
    out[i] = quant::bf16_to_float(column[i / 2 * kPanelColumns * 2 + i % 2]);
  }
}

void unpack_row_fp8(const PackedWeights& weights, int64_t n, float* out) {
  const std::byte* group = weights.data + n / kPanelColumns * fp8_panel_bytes(weights.k);
  const int64_t column = n % kPanelColumns;
  for (int64_t begin = 0; begin < weights.k; begin += kFp8GroupK, group += kFp8GroupBytes) {
    const float scale = reinterpret_cast<const float*>(group)[column] * kFp8SumScale;
    for (int64_t i = 0; i < kFp8GroupK && begin + i < weights.k; ++i) {
      const auto code = static_cast<quant::Fp8>(group[kLineBytes + fp8_code_offset(column, i)]);
      out[begin + i] = quant::e4m3_to_float(code) * scale;
    }
  }
}

}  // namespace

int64_t packed_panel_bytes(WeightFormat format, int64_t k) {
  switch (format) {
    case WeightFormat::kBf16:
      return packed_pairs(k) * kPanelColumns * 2 * static_cast<int64_t>(sizeof(quant::Bf16));
    case WeightFormat::kFp8:
      return fp8_panel_bytes(k);
    case WeightFormat::kInt4:
      return int4_panel_bytes(k);
  }
  BH_CHECK(false, "a weight format that is packed");
  return 0;
}

size_t packed_bytes(WeightFormat format, int64_t n, int64_t k) {
  return static_cast<size_t>(packed_panels(n) * packed_panel_bytes(format, k));
}

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

void pack_rows_fp8(const quant::Fp8* codes, const float* scales, int64_t row_begin, int64_t rows,
                   int64_t k, std::byte* packed) {
  const int64_t groups = fp8_groups(k);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t column = (row_begin + r) % kPanelColumns;
    std::byte* panel = packed + (row_begin + r) / kPanelColumns * fp8_panel_bytes(k);
    for (int64_t g = 0; g < groups; ++g) {
      std::byte* group = panel + g * kFp8GroupBytes;
      reinterpret_cast<float*>(group)[column] = scales[r * groups + g] * kFp8Rescale;
      const quant::Fp8* row = codes + r * k + g * kFp8GroupK;
      const int64_t count = g + 1 < groups ? kFp8GroupK : k - g * kFp8GroupK;
      for (int64_t i = 0; i < count; ++i) {
        group[kLineBytes + fp8_code_offset(column, i)] = static_cast<std::byte>(row[i]);
      }
    }
  }
}

void unpack_row(const PackedWeights& weights, int64_t n, float* out) {
  switch (weights.format) {
    case WeightFormat::kBf16:
      return unpack_row_bf16(weights, n, out);
    case WeightFormat::kFp8:
      return unpack_row_fp8(weights, n, out);
    case WeightFormat::kInt4:
      return unpack_row_int4(weights.data, weights.k, n, out);
  }
  BH_CHECK(false, "a weight format that is packed");
}

}  // namespace bulkhead::kernels
