// c = a * w^T: activations [rows, k] in FP32 times packed weights [n, k].
//
// Order of accumulation, the same on every blocking of one ISA path and for every number of rows:
// an output element starts at its initial value and adds a[k]*w[k] for k = 0, 1, 2, ... with one
// fused multiply-add each (vector paths), or tile by tile of 32 k in the tile unit's own order
// after rounding a to BF16 (AMX path). Weights with scales: the same within each scale group, over
// the codes and from zero, then c = fma(sum, scale, c), groups ascending. Hence one row gives the
// same bits alone and among others.
//
// Bound, where S is the sum of |a[k] w[k]| and of the magnitude of what c starts from: |error| <=
// k * 2^-24 * S to first order (k * 2^-24 / (1 - k * 2^-24) exactly), over FP8 one rounding more
// for each scale group; AMX adds 2^-8 * S for rounding the activations. Over FP8, |a[k]| is below
// 2^63 (fp8_panels.h).
//
// INT4 weights (vector paths): within a scale group of 32 k the sum of a[k] * q[k] is such a chain
// from 0, and c = fma(sum, scale, c) follows, groups ascending; |error| <= (33 + k / 32) * 2^-24 *
// S. AMX multiplies BF16 of q * scale, which adds another 2^-8 * S.
//
// Activations in bytes (INT4 weights only, others keep FP32): of each 32 k of a row, scale =
// amax / 127 and code = a * (127 / amax) rounded to nearest even. The sum of code * q is an exact
// integer and c = fma(sum, weight scale * scale, c), groups ascending, on every path. A group whose
// amax is below 2^-100 counts as zero, one that holds an infinity or a NaN as NaN. |error| <=
// (3 + k / 32) * 2^-24 * (sum |code q| scales and the magnitude of what c starts from), and against
// the activations as they were another sum over groups of 0.51 * scale * sum |w[k]|.
//
// Threads: one caller at a time, the one that owns the pool.
// Scratch: 305 KiB per worker on vector paths, for any shape. On AMX, and for activations in bytes,
// worker 0 holds the rounded activations of as many rows as fit (up to 256 of a product), and 16
// rows on AMX, one in bytes, have to fit: 32 and 1.25 bytes for each k, so that the 8 MiB of a pool
// serve k up to 262144 on AMX and 6.5 million in bytes.
#pragma once

#include <cstdint>
#include <span>

#include "device/thread_pool.h"
#include "kernels/packed_weights.h"

namespace bulkhead::kernels {

enum class Activations : uint8_t { kFp32, kInt8 };

struct GemmArgs {
  const float* a = nullptr;  // [rows][a_stride], first k used
  int64_t a_stride = 0;
  int64_t rows = 0;
  PackedWeights w;
  const float* bias = nullptr;  // [n] or null
  float* c = nullptr;           // [rows][c_stride], first n written
  int64_t c_stride = 0;
  bool accumulate = false;  // start from c (residual) instead of bias/zero; excludes bias
  Activations activations = Activations::kFp32;
};

inline bool multiplies_bytes(const GemmArgs& args) {
  return args.activations == Activations::kInt8 && args.w.format == WeightFormat::kInt4;
}

using GemmFn = void (*)(const GemmArgs& args, device::ThreadPool& pool);

// Several products that do not depend on each other, dealt out together: the experts of a layer,
// the heads of an absorbed projection. Each has the bits that it has alone. Products of no rows are
// allowed and do nothing.
using GemmGroupFn = void (*)(std::span<const GemmArgs> group, device::ThreadPool& pool);

// Products of a group that are planned at a time; a longer group is worked off in several turns.
inline constexpr size_t kGemmGroupMax = 64;

}  // namespace bulkhead::kernels
