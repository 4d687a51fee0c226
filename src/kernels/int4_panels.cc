#include "kernels/int4_panels.h"

#include <cstring>

#include "kernels/packed_weights.h"
#include "quant/bf16.h"

namespace bulkhead::kernels {
namespace {

int64_t code_byte(int64_t column, int64_t k) {
  return k / kInt4BlockK * kInt4BlockBytes + k % kInt4BlockK / 8 * 64 + column * 4 + k % 8 / 2;
}

int64_t scale_byte(int64_t column, int64_t group) {
  return group / 2 * kInt4BlockBytes + kInt4ScaleOffset + group % 2 * 32 + column * 2;
}

}  // namespace

int64_t int4_groups(int64_t k) { return (k + kInt4GroupK - 1) / kInt4GroupK; }

int64_t int4_panel_bytes(int64_t k) {
  return (k + kInt4BlockK - 1) / kInt4BlockK * kInt4BlockBytes;
}

int int4_value(const std::byte* panel, int64_t column, int64_t k) {
  const auto pair = std::to_integer<int>(panel[code_byte(column, k)]);
  return (k % 2 == 0 ? pair & 15 : pair >> 4) - 8;
}

float int4_scale(const std::byte* panel, int64_t column, int64_t group) {
  quant::Bf16 code;
  std::memcpy(&code, panel + scale_byte(column, group), sizeof(code));
  return quant::bf16_to_float(code);
}

void pack_rows_int4(const uint8_t* codes, const uint16_t* scales, int64_t row_begin, int64_t rows,
                    int64_t k, std::byte* packed) {
  const int64_t groups = int4_groups(k);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = row_begin + r;
    const int64_t column = n % kPanelColumns;
    std::byte* panel = packed + n / kPanelColumns * int4_panel_bytes(k);
    for (int64_t i = 0; i < k; i += 2) {
      const int low = codes[r * k + i] & 15;
      const int high = i + 1 < k ? codes[r * k + i + 1] & 15 : 0;
      panel[code_byte(column, i)] = static_cast<std::byte>(low | high << 4);
    }
    for (int64_t group = 0; group < groups; ++group) {
      std::memcpy(panel + scale_byte(column, group), scales + r * groups + group,
                  sizeof(quant::Bf16));
    }
  }
}

void unpack_row_int4(const std::byte* packed, int64_t k, int64_t n, float* out) {
  const std::byte* panel = packed + n / kPanelColumns * int4_panel_bytes(k);
  const int64_t column = n % kPanelColumns;
  for (int64_t i = 0; i < k; ++i) {
    out[i] = static_cast<float>(int4_value(panel, column, i)) *
             int4_scale(panel, column, i / kInt4GroupK);
  }
}

}  // namespace bulkhead::kernels
