// Where e4m3 codes stand in panels of 16 columns, for weights and for the cache alike, and the
// power of two by which their sums are smaller than what they stand for.
//
// A line of 64 bytes is 4 neighbouring k of 16 columns: a dword holds the 4 codes of one column, in
// the byte order k+2, k, k+3, k+1. So the upper bytes of the dword's halves are one k-pair and the
// lower bytes the next: a shift and a mask turn each into a line of BF16 (packed_weights.h).
//
// Weights: a panel is a row of scale groups of 128 k, each 16 FP32 scales (one line), then its
// lines of codes; the last group is as long as k needs, rounded up to 32 k. Padding is 0.
//
// The vector paths read a code as 2^-56 times its value, or as 2^-120 times (its bits, shifted, as
// a float: subnormal codes are subnormal floats) beside factors lifted by 2^64. Either way a sum of
// products is 2^-56 times what it stands for; the packed scales are 2^56 times the tensor's. All
// these are powers of two, so no bit of a result shows them, as long as factors stay below 2^63 and
// what matters of a sum above 2^-70.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bulkhead::kernels {

inline constexpr int64_t kLineBytes = 64;
inline constexpr int64_t kFp8LineK = 4;
inline constexpr int64_t kFp8GroupK = 128;
inline constexpr int64_t kFp8GroupBytes = kLineBytes + kFp8GroupK / kFp8LineK * kLineBytes;
// The number of lines is a multiple of this: an AMX tile of 32 k.
inline constexpr int64_t kFp8LinesAlign = 8;

inline constexpr int32_t kFp8SumExponent = -56;
inline constexpr float kFp8SumScale = 0x1p-56f;
inline constexpr float kFp8Rescale = 0x1p56f;  // its inverse

inline int64_t fp8_lines(int64_t k) {
  constexpr int64_t kAlign = kFp8LinesAlign * kFp8LineK;
  return (k + kAlign - 1) / kAlign * kFp8LinesAlign;
}
inline int64_t fp8_groups(int64_t k) { return (k + kFp8GroupK - 1) / kFp8GroupK; }
inline int64_t fp8_panel_bytes(int64_t k) { return (fp8_lines(k) + fp8_groups(k)) * kLineBytes; }

// Bytes from the start of a row of lines to the code of (column, k).
inline int64_t fp8_code_offset(int64_t column, int64_t k) {
  constexpr std::array<int64_t, 4> kPlace = {1, 3, 0, 2};
  return k / kFp8LineK * kLineBytes + column * kFp8LineK + kPlace[static_cast<size_t>(k % 4)];
}

}  // namespace bulkhead::kernels
