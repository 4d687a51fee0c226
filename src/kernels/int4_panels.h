// INT4 weights inside a panel of 16 columns: blocks of 64 k, each nine lines of 64 bytes.
//
//   lines 0 to 7   the codes: line i holds k = 8 i to 8 i + 7 of the block, one dword per column,
//                  the lowest nibble first; a code is q + 8 for q in [-8, 7]
//   line 8         the scales: 16 BF16 of the first 32 k, 16 BF16 of the others
//
// A weight is q * scale. Beyond k everything is 0, also the scale. A line serves all users as it
// stands: a nibble of every dword is one k of 16 columns for FP32, and every other nibble is four
// bytes of one column for integer products.
//
// Threads: plain functions on the caller's memory. Nothing here is inline: ISA translation units
// include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bulkhead::kernels {

inline constexpr int64_t kInt4GroupK = 32;  // codes of a row that share a scale
inline constexpr int64_t kInt4BlockK = 64;
inline constexpr int64_t kInt4BlockBytes = 576;
inline constexpr int64_t kInt4ScaleOffset = 512;  // of the scales, inside a block

// Activations in bytes (gemm.h): a group whose greatest magnitude is below 2^-100 is zero, and one
// with an infinity or a NaN is NaN; these are the bits of both bounds.
inline constexpr int32_t kInt8LeastBits = 27 << 23;
inline constexpr int32_t kInt8InfinityBits = 0x7f800000;

int64_t int4_groups(int64_t k);
int64_t int4_panel_bytes(int64_t k);

// q of one element, and the scale of one column's group.
int int4_value(const std::byte* panel, int64_t column, int64_t k);
float int4_scale(const std::byte* panel, int64_t column, int64_t group);

// Row `n` of packed INT4 weights, scaled; exact unless q * scale leaves the range of a float.
void unpack_row_int4(const std::byte* packed, int64_t k, int64_t n, float* out);

}  // namespace bulkhead::kernels
