// What the tests of products share: one product with its data, and the bound of gemm.h.
//
// Threads: one test at a time.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/amx/gemm_tiles.h"
#include "kernels/gemm.h"
#include "kernels/test_support.h"

namespace bulkhead::kernels::testing {

inline void emulated_gemm(const GemmArgs& args, device::ThreadPool& pool) {
  amx::gemm(kEmulatedTileOps, args, pool);
}

enum class Start { kZero, kBias, kResidual };

// One product with room around c, so that a write beyond [rows, n] shows.
struct Problem {
  TestWeights weights;
  int64_t rows;
  int64_t a_stride;
  int64_t c_stride;
  Start start;
  std::vector<float> a;
  std::vector<float> bias;
  std::vector<float> c_before;
  Activations activations = Activations::kFp32;

  Problem(Random& random, int64_t row_count, int64_t n, int64_t k, Start from,
          WeightFormat format = WeightFormat::kBf16)
      : weights(random, n, k, format),
        rows(row_count),
        a_stride(k + 3),
        c_stride(n + 5),
        start(from),
        a(testing::random_floats(random, rows * a_stride)),
        bias(testing::random_floats(random, n)),
        c_before(testing::random_floats(random, rows * c_stride)) {}

  // Rows [first, first + count) only.
  GemmArgs args(std::vector<float>& c, int64_t first, int64_t count) const {
    GemmArgs args;
    args.a = a.data() + first * a_stride;
    args.a_stride = a_stride;
    args.rows = count;
    args.w = weights.packed();
    args.bias = start == Start::kBias ? bias.data() : nullptr;
    args.c = c.data() + first * c_stride;
    args.c_stride = c_stride;
    args.accumulate = start == Start::kResidual;
    args.activations = activations;
    return args;
  }
  void run(GemmFn gemm, device::ThreadPool& pool, std::vector<float>& c, int64_t first,
           int64_t count) const {
    gemm(args(c, first, count), pool);
  }
  std::vector<float> run(GemmFn gemm, device::ThreadPool& pool) const {
    std::vector<float> c = c_before;
    run(gemm, pool, c, 0, rows);
    return c;
  }

  double start_value(int64_t row, int64_t column) const {
    if (start == Start::kBias) return static_cast<double>(bias[static_cast<size_t>(column)]);
    if (start == Start::kZero) return 0.0;
    return static_cast<double>(c_before[static_cast<size_t>(row * c_stride + column)]);
  }
};

// What gemm.h promises of an error, as a share of the sum of all magnitudes, the start's among
// them.
inline double promised_error(WeightFormat format, int64_t k, bool tiles) {
  const auto length = static_cast<double>(k);
  double roundings = length;
  if (format == WeightFormat::kFp8) roundings += static_cast<double>((k + 127) / 128);
  if (format == WeightFormat::kInt4 && !tiles) roundings = 33 + length / 32;
  double share = roundings * 0x1p-24 / (1 - roundings * 0x1p-24);
  if (tiles) share += format == WeightFormat::kInt4 ? 0x1p-7 : 0x1p-8;
  return share;
}

// Checks every element against a double-precision sum and that bound, and what lies around c.
inline void expect_within_bound(const Problem& p, const std::vector<float>& c,
                                bool rounds_activations) {
  const int64_t n = p.weights.n;
  const int64_t k = p.weights.k;
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = p.start_value(row, column);
      double magnitude = std::fabs(sum);
      for (int64_t i = 0; i < k; ++i) {
        const double term = static_cast<double>(p.a[static_cast<size_t>(row * p.a_stride + i)]) *
                            p.weights.at(column, i);
        sum += term;
        magnitude += std::fabs(term);
      }
      const double bound = promised_error(p.weights.format, k, rounds_activations) * magnitude;
      const float got = c[static_cast<size_t>(row * p.c_stride + column)];
      ASSERT_LE(std::fabs(static_cast<double>(got) - sum), bound)
          << "format " << static_cast<int>(p.weights.format) << " rows " << p.rows << " n " << n
          << " k " << k << " at " << row << "," << column;
    }
    for (int64_t beyond = n; beyond < p.c_stride; ++beyond) {
      const auto at = static_cast<size_t>(row * p.c_stride + beyond);
      ASSERT_TRUE(same_bits(c[at], p.c_before[at])) << "written beyond row " << row;
    }
  }
}

}  // namespace bulkhead::kernels::testing
