// Weights [n, k] as the kernels read them: panels of 16 output columns, in one order for each
// format. The descriptor says all there is to know about the bytes; kernels are chosen by it.
//
// BF16, inside a panel k-pairs:
//   element (n, k) stands at  ((n/16) * kp + k/2) * 32 + (n%16) * 2 + k%2   (in Bf16 units)
//   with kp = ceil(k_total/2) rounded up to a multiple of 16 (an AMX tile of k-pairs); padding is
//   0.
//
// A dword holds two neighbouring k of one column: the vector path widens it with a shift and a
// mask, an AMX tile multiplies it as it stands. One k-pair row of a panel is one 64-byte line.
//
// FP8: fp8_panels.h. One scale for each row and 128 k, beside the codes of its panel.
// INT4: int4_panels.h. One scale for each row and 32 k.
//
// Threads: plain values; packing writes, everything else reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/bf16.h"
#include "quant/fp8.h"

namespace bulkhead::kernels {

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPairsAlign = 16;

inline int64_t packed_pairs(int64_t k) {
  return ((k + 1) / 2 + kPairsAlign - 1) / kPairsAlign * kPairsAlign;
}
inline int64_t packed_panels(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

enum class WeightFormat : uint8_t {
  kBf16,
  kFp8,   // e4m3 codes, an FP32 scale for each row and 128 k
  kInt4,  // q + 8 of q in [-8, 7], a BF16 scale for each row and 32 k
};

// Bytes of one panel, and of the whole matrix [n, k].
int64_t packed_panel_bytes(WeightFormat format, int64_t k);
size_t packed_bytes(WeightFormat format, int64_t n, int64_t k);
inline size_t packed_bytes(int64_t n, int64_t k) { return packed_bytes(WeightFormat::kBf16, n, k); }

// A packed matrix that somebody else owns.
struct PackedWeights {
  const std::byte* data = nullptr;  // 64-byte aligned, packed_bytes(format, n, k) bytes
  int64_t n = 0;                    // output features
  int64_t k = 0;                    // input features
  WeightFormat format = WeightFormat::kBf16;

  const quant::Bf16* bf16() const { return reinterpret_cast<const quant::Bf16*>(data); }
};

// Places rows [row_begin, row_begin + rows) of a matrix of `k` columns into `packed` (zeroed before
// the first call); `source` is row-major [rows][k].
void pack_rows(const quant::Bf16* source, int64_t row_begin, int64_t rows, int64_t k,
               quant::Bf16* packed);
// As pack_rows. `codes` are [rows][k], none of them NaN; `scales` are [rows][ceil(k/128)].
void pack_rows_fp8(const quant::Fp8* codes, const float* scales, int64_t row_begin, int64_t rows,
                   int64_t k, std::byte* packed);
// As pack_rows. `codes` are [rows][k] in 0..15, `scales` are [rows][ceil(k/32)].
void pack_rows_int4(const uint8_t* codes, const quant::Bf16* scales, int64_t row_begin,
                    int64_t rows, int64_t k, std::byte* packed);

// Row `n` of the matrix, each value code times scale: how an embedding table is read.
void unpack_row(const PackedWeights& weights, int64_t n, float* out);

}  // namespace bulkhead::kernels
