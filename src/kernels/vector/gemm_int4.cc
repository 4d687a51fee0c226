#include "kernels/vector/gemm_int4.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/int4_panels.h"

namespace bulkhead::kernels::vector {
namespace {

// 256 k of a panel are 8 KiB of lines: those of two panels share L1 with the rows of a tile.
constexpr int64_t kStretchK = 256;
constexpr int64_t kStretchGroups = kStretchK / kInt4GroupK;
constexpr int64_t kStretchBytes = kStretchK / kInt4BlockK * kInt4BlockBytes;
constexpr int64_t kPanelsTogether = 2;
constexpr int64_t kLineFloats = kStretchK * 16 / 2;
constexpr int64_t kScaleFloats = kStretchGroups * 16;

// Tiles of rows that widen each code anew before sharing it pays.
constexpr int64_t kTilesInRegisters = 2;

void multiply_stretch(const VectorOps& ops, const Int4Product& product, int64_t begin,
                      int64_t stretch_k, const float* a, int64_t a_stride, float* scratch) {
  const int64_t offset = begin / kInt4BlockK * kInt4BlockBytes;
  const int64_t groups = int4_groups(stretch_k);
  float* scales = scratch;
  auto* lines = reinterpret_cast<uint8_t*>(scratch + kPanelsTogether * kScaleFloats);
  for (int64_t panel = 0; panel < product.panels; panel += kPanelsTogether) {
    const int64_t count = std::min(kPanelsTogether, product.panels - panel);
    for (int64_t p = 0; p < count; ++p) {
      // What is expanded next; after the last panel the first one's next stretch.
      const int64_t next = panel + p + kPanelsTogether;
      const uint8_t* ahead = next < product.panels ? product.codes[next] + offset
                                                   : product.codes[p] + offset + kStretchBytes;
      ops.expand_int4(product.codes[panel + p] + offset, groups, ahead, lines + p * kLineFloats * 4,
                      scales + p * kScaleFloats);
    }
    float* c = product.c + panel * 16;
    const float* first = product.start != nullptr ? product.start + panel * 16 : nullptr;
    ops.multiply_scaled({.a = a,
                         .a_stride = a_stride,
                         .rows = product.rows,
                         .lines = lines,
                         .line_stride = kLineFloats * 4,
                         .scales = scales,
                         .scale_stride = kScaleFloats,
                         .group_k = kInt4GroupK,
                         .panels = count,
                         .k = stretch_k,
                         .start = begin > 0 ? c : first,
                         .start_stride = begin > 0 ? product.c_stride : product.start_stride,
                         .c = c,
                         .c_stride = product.c_stride});
  }
}

}  // namespace

bool int4_in_registers(const VectorOps& ops, int64_t rows) {
  return rows <= kTilesInRegisters * ops.int4_tile_rows;
}

int64_t int4_scratch_floats(const VectorOps& ops, int64_t rows) {
  if (int4_in_registers(ops, rows)) return 0;
  return rows * kStretchK + kPanelsTogether * (kLineFloats + kScaleFloats);
}

void multiply_int4_block(const VectorOps& ops, const Int4Product& product,
                         std::span<float> scratch) {
  if (int4_in_registers(ops, product.rows)) {
    ops.multiply_int4(product);
    return;
  }
  BH_CHECK(static_cast<int64_t>(scratch.size()) >= int4_scratch_floats(ops, product.rows),
           "a worker's scratch is too small for gemm");
  float* rows = scratch.data();
  for (int64_t begin = 0; begin < product.k; begin += kStretchK) {
    const int64_t stretch_k = std::min(kStretchK, product.k - begin);
    // Rows of a power-of-two stride share few cache sets: side by side they fit L1 and L2.
    for (int64_t r = 0; r < product.rows; ++r) {
      std::copy_n(product.a + r * product.a_stride + begin, stretch_k, rows + r * kStretchK);
    }
    multiply_stretch(ops, product, begin, stretch_k, rows, kStretchK,
                     rows + product.rows * kStretchK);
  }
}

}  // namespace bulkhead::kernels::vector
