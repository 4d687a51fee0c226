#include "kernels/vector/gemm_int4.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/int4_panels.h"

namespace bulkhead::kernels::vector {
namespace {

// 256 k of a panel are 8 KiB of lines: those of two panels share L1 with the rows of a tile.
constexpr int64_t kStretchK = 256;
constexpr int64_t kStretchBytes = kStretchK / kInt4BlockK * kInt4BlockBytes;
constexpr int64_t kPanelsTogether = 2;
constexpr int64_t kLineFloats = kStretchK * 16 / 2;
constexpr int64_t kScaleFloats = kStretchK / kInt4GroupK * 16;

constexpr int64_t kPanelFloats = kLineFloats + kScaleFloats;

// Tiles of rows that go over a panel from end to end, reading the rows where they lie.
constexpr int64_t kTilesTogether = 2;

// Some k of all the rows, which were packed.
struct Stretch {
  const float* a;
  int64_t begin;
  int64_t k;
};

// Later k continue the sums that the earlier ones left in c.
const float* start_of(const Int4Product& product, const Stretch& stretch, int64_t panel) {
  const float* start = stretch.begin > 0 ? product.c : product.start;
  return start != nullptr ? start + panel * 16 : nullptr;
}
int64_t start_stride(const Int4Product& product, const Stretch& stretch) {
  return stretch.begin > 0 ? product.c_stride : product.start_stride;
}

// Widens two panels at a time for all rows.
void multiply_expanded(const VectorOps& ops, const Int4Product& product, const Stretch& stretch,
                       float* scratch) {
  const int64_t offset = stretch.begin / kInt4BlockK * kInt4BlockBytes;
  float* scales = scratch;
  auto* lines = reinterpret_cast<uint8_t*>(scratch + kPanelsTogether * kScaleFloats);
  for (int64_t panel = 0; panel < product.panels; panel += kPanelsTogether) {
    const int64_t count = std::min(kPanelsTogether, product.panels - panel);
    for (int64_t p = 0; p < count; ++p) {
      // What is expanded next; after the last panel the first one's next stretch.
      const int64_t next = panel + p + kPanelsTogether;
      const uint8_t* ahead = next < product.panels ? product.codes[next] + offset
                                                   : product.codes[p] + offset + kStretchBytes;
      ops.expand_int4(product.codes[panel + p] + offset, int4_groups(stretch.k), ahead,
                      lines + p * kLineFloats * 4, scales + p * kScaleFloats);
    }
    ops.multiply_scaled({.a = stretch.a,
                         .a_stride = kStretchK,
                         .rows = product.rows,
                         .lines = lines,
                         .line_stride = kLineFloats * 4,
                         .scales = scales,
                         .scale_stride = kScaleFloats,
                         .group_k = kInt4GroupK,
                         .panels = count,
                         .k = stretch.k,
                         .start = start_of(product, stretch, panel),
                         .start_stride = start_stride(product, stretch),
                         .c = product.c + panel * 16,
                         .c_stride = product.c_stride});
  }
}

// Widens every code in registers, anew for each tile of rows.
void multiply_in_registers(const VectorOps& ops, const Int4Product& product,
                           const Stretch& stretch) {
  const int64_t offset = stretch.begin / kInt4BlockK * kInt4BlockBytes;
  for (int64_t panel = 0; panel < product.panels; ++panel) {
    const uint8_t* codes = product.codes[panel] + offset;
    ops.multiply_int4({.a = stretch.a,
                       .a_stride = kStretchK,
                       .rows = product.rows,
                       .codes = &codes,
                       .panels = 1,
                       .k = stretch.k,
                       .start = start_of(product, stretch, panel),
                       .start_stride = start_stride(product, stretch),
                       .c = product.c + panel * 16,
                       .c_stride = product.c_stride});
  }
}

}  // namespace

bool int4_few_rows(const VectorOps& ops, int64_t rows) {
  return rows <= kTilesTogether * ops.int4_tile_rows;
}

int64_t int4_scratch_floats(const VectorOps& ops, int64_t rows) {
  if (int4_few_rows(ops, rows)) return 0;
  const int64_t lines = ops.expand_int4 == nullptr ? 0 : kPanelsTogether * kPanelFloats;
  return rows * kStretchK + lines;
}

void multiply_int4_block(const VectorOps& ops, const Int4Product& product,
                         std::span<float> scratch) {
  if (int4_few_rows(ops, product.rows)) {
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
    const Stretch stretch{rows, begin, stretch_k};
    if (ops.expand_int4 != nullptr) {
      multiply_expanded(ops, product, stretch, rows + product.rows * kStretchK);
    } else {
      multiply_in_registers(ops, product, stretch);
    }
  }
}

}  // namespace bulkhead::kernels::vector
