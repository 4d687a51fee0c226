// The tile unit in plain C++, for tests of the tiling on every machine.
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/amx/tile_ops.h"
#include "kernels/fp8_panels.h"
#include "kernels/int4_panels.h"
#include "quant/bf16.h"
#include "quant/fp8.h"

namespace bulkhead::kernels {
namespace {

// The unit treats subnormals as zero, going in and coming out.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

class TileUnit {
 public:
  template <int kTile>
  void zero() {
    std::memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
  }
  template <int kTile>
  void load(const void* from, int64_t stride_bytes) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      std::memcpy(tiles_[kTile][r], static_cast<const char*>(from) + r * stride_bytes, 64);
    }
  }
  template <int kTile>
  void store(void* to, int64_t stride_bytes) const {
    for (int64_t r = 0; r < kTileRows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * stride_bytes, tiles_[kTile][r], 64);
    }
  }

  // TDPBF16PS: even and odd k are two chains of fused multiply-adds from zero over the tile's 16
  // pairs, rounded to nearest even; their sum is added to the destination.
  template <int kC, int kA, int kB>
  void multiply() {
    for (int64_t m = 0; m < kTileRows; ++m) {
      for (int64_t n = 0; n < 16; ++n) {
        float even = 0.0f;
        float odd = 0.0f;
        for (int64_t k = 0; k < 16; ++k) {
          even = flushed(std::fma(code(kA, m, 2 * k), code(kB, k, 2 * n), even));
          odd = flushed(std::fma(code(kA, m, 2 * k + 1), code(kB, k, 2 * n + 1), odd));
        }
        float sum;
        std::memcpy(&sum, tiles_[kC][m] + 4 * n, sizeof(sum));
        sum = flushed(flushed(sum) + flushed(even + odd));
        std::memcpy(tiles_[kC][m] + 4 * n, &sum, sizeof(sum));
      }
    }
  }

  static void round32(const float* in, uint16_t* out) {
    for (int64_t i = 0; i < kTileK; ++i) out[i] = quant::float_to_bf16(in[i]);
  }

 private:
  float code(int tile, int64_t row, int64_t column) const {
    uint16_t bits;
    std::memcpy(&bits, tiles_[tile][row] + 2 * column, sizeof(bits));
    return flushed(quant::bf16_to_float(bits));
  }

  unsigned char tiles_[8][kTileRows][64] = {};
};

}  // namespace
}  // namespace bulkhead::kernels

// After the unit it is written over.
#include "kernels/amx/tile_multiply-inl.h"

namespace bulkhead::kernels {
namespace {

void expand_fp8(const void* codes, int64_t lines, const void* /*ahead*/, void* out) {
  const auto* from = static_cast<const quant::Fp8*>(codes);
  auto* to = static_cast<quant::Bf16*>(out);
  for (int64_t k = 0; k < lines * kFp8LineK; ++k) {
    for (int64_t column = 0; column < 16; ++column) {
      const float value = quant::e4m3_to_float(from[fp8_code_offset(column, k)]) * kFp8SumScale;
      to[k / 2 * kTileK + column * 2 + k % 2] = quant::float_to_bf16(value);
    }
  }
}

void expand_int4(const uint8_t* codes, int64_t groups, uint16_t* tiles) {
  const auto* panel = reinterpret_cast<const std::byte*>(codes);
  for (int64_t k = 0; k < groups * kInt4GroupK; ++k) {
    for (int64_t column = 0; column < 16; ++column) {
      const float value = static_cast<float>(int4_value(panel, column, k)) *
                          int4_scale(panel, column, k / kInt4GroupK);
      tiles[k / 2 * kTileK + column * 2 + k % 2] = quant::float_to_bf16(value);
    }
  }
}

}  // namespace

const TileOps kEmulatedTileOps = {.round_rows = round_rows,
                                  .multiply = multiply_tiles,
                                  .expand_fp8 = expand_fp8,
                                  .expand_int4 = expand_int4,
                                  .tile_rounds = tile_rounds};

}  // namespace bulkhead::kernels
