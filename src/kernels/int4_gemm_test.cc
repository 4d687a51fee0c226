#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/amx/gemm_tiles.h"
#include "kernels/int4_panels.h"
#include "kernels/simd/vector_ops.h"
#include "kernels/test_support.h"

namespace bulkhead::kernels {
namespace {

using testing::Random;
using testing::same_bits;

// A matrix [n, k] of codes and scales, as they are and packed.
struct Int4Weights {
  int64_t n;
  int64_t k;
  std::vector<uint8_t> codes;
  std::vector<quant::Bf16> scales;
  device::Buffer bytes;

  Int4Weights(Random& random, int64_t rows, int64_t columns)
      : n(rows),
        k(columns),
        codes(static_cast<size_t>(rows * columns)),
        scales(static_cast<size_t>(rows * int4_groups(columns))),
        bytes(testing::aligned_bytes(
            static_cast<size_t>(packed_panels(rows) * int4_panel_bytes(columns)))) {
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random.below(16));
    for (quant::Bf16& scale : scales) scale = quant::float_to_bf16(random.unit() * 0.2f);
    pack();
  }
  void pack() { pack_rows_int4(codes.data(), scales.data(), 0, n, k, bytes.data()); }
  PackedWeights packed() const { return {bytes.data(), n, k, WeightFormat::kInt4}; }
  double scale(int64_t row, int64_t column) const {
    const auto at = static_cast<size_t>(row * int4_groups(k) + column / kInt4GroupK);
    return static_cast<double>(quant::bf16_to_float(scales[at]));
  }
  double at(int64_t row, int64_t column) const {
    return (codes[static_cast<size_t>(row * k + column)] - 8) * scale(row, column);
  }
};

enum class Start { kZero, kBias, kResidual };

// One product with room around c, so that a write beyond [rows, n] shows.
struct Problem {
  Int4Weights weights;
  int64_t rows;
  int64_t a_stride;
  int64_t c_stride;
  Start start;
  std::vector<float> a;
  std::vector<float> bias;
  std::vector<float> c_before;
  Activations activations = Activations::kFp32;

  Problem(Random& random, int64_t row_count, int64_t n, int64_t k, Start from)
      : weights(random, n, k),
        rows(row_count),
        a_stride(k + 3),
        c_stride(n + 5),
        start(from),
        a(testing::random_floats(random, rows * a_stride)),
        bias(testing::random_floats(random, n)),
        c_before(testing::random_floats(random, rows * c_stride)) {}

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

// The bound of gemm.h against a sum in double precision, and what lies around c.
void expect_within_bound(const Problem& p, const std::vector<float>& c, bool tiles) {
  const int64_t n = p.weights.n;
  const int64_t k = p.weights.k;
  const auto steps = static_cast<double>(tiles ? k + 1 : kInt4GroupK + 1 + int4_groups(k));
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
      const double bound = (steps * 0x1p-24 + (tiles ? 0x1p-7 : 0.0)) * magnitude;
      const float got = c[static_cast<size_t>(row * p.c_stride + column)];
      ASSERT_LE(std::fabs(static_cast<double>(got) - sum), bound)
          << "rows " << p.rows << " n " << n << " k " << k << " at " << row << "," << column;
    }
    for (int64_t beyond = n; beyond < p.c_stride; ++beyond) {
      const auto at = static_cast<size_t>(row * p.c_stride + beyond);
      ASSERT_TRUE(same_bits(c[at], p.c_before[at])) << "written beyond row " << row;
    }
  }
}

class Int4Gemm : public testing::EveryIsa {};

TEST_P(Int4Gemm, StaysWithinItsBoundOnEveryShape) {
  device::ThreadPool pool({.threads = 2});
  Random random(11);
  for (const int64_t n : {1, 16, 17, 40, 200}) {
    for (const int64_t k : {1, 2, 31, 32, 33, 64, 75, 301}) {
      for (const int64_t rows : {1, 2, 3, 5, 8, 17, 33}) {
        const Problem problem(random, rows, n, k, Start::kZero);
        ASSERT_NO_FATAL_FAILURE(
            expect_within_bound(problem, problem.run(kernels().gemm, pool), rounds_activations()));
      }
    }
  }
}

// C027
TEST_P(Int4Gemm, EveryRowCountUpToFortyAndAroundTheBlocksIsRight) {
  device::ThreadPool pool({.threads = 2});
  Random random(12);
  std::vector<int64_t> counts(40);
  std::iota(counts.begin(), counts.end(), 1);
  for (const int64_t edge : {48, 64, 255, 256, 257, 300}) counts.push_back(edge);
  for (const int64_t rows : counts) {
    const Problem problem(random, rows, 35, 67, Start::kBias);
    ASSERT_NO_FATAL_FAILURE(
        expect_within_bound(problem, problem.run(kernels().gemm, pool), rounds_activations()));
  }
}

TEST_P(Int4Gemm, ARowHasTheSameBitsAloneInABatchAndInAnySplit) {
  device::ThreadPool pool({.threads = 2});
  Random random(14);
  for (const int64_t k : {65, 600, 1100}) {
    const int64_t rows = 64;
    const Problem problem(random, rows, 150, k, Start::kResidual);
    const std::vector<float> together = problem.run(kernels().gemm, pool);
    std::vector<float> alone = problem.c_before;
    for (int64_t row = 0; row < rows; ++row) problem.run(kernels().gemm, pool, alone, row, 1);
    EXPECT_TRUE(same_bits(together, alone)) << "one by one, k " << k;
    for (int trial = 0; trial < 6; ++trial) {
      std::vector<float> split = problem.c_before;
      for (int64_t row = 0; row < rows;) {
        const int64_t count = std::min(rows - row, 1 + random.below(rows - 1));
        problem.run(kernels().gemm, pool, split, row, count);
        row += count;
      }
      EXPECT_TRUE(same_bits(together, split)) << "k " << k;
    }
  }
}

// What the sum comes to, and the bound of gemm.h, of one element with activations in bytes.
void expect_within_byte_bound(const Problem& p, const std::vector<float>& c) {
  const int64_t k = p.weights.k;
  for (int64_t row = 0; row < p.rows; ++row) {
    const float* a = p.a.data() + row * p.a_stride;
    for (int64_t column = 0; column < p.weights.n; ++column) {
      double sum = p.start_value(row, column);
      double magnitude = std::fabs(sum);
      double rounding = 0.0;
      for (int64_t begin = 0; begin < k; begin += kInt4GroupK) {
        double amax = 0.0;
        double weights = 0.0;
        for (int64_t i = begin; i < std::min(begin + kInt4GroupK, k); ++i) {
          const double w = p.weights.at(column, i);
          amax = std::max(amax, std::fabs(static_cast<double>(a[i])));
          weights += std::fabs(w);
          sum += static_cast<double>(a[i]) * w;
          magnitude += std::fabs(static_cast<double>(a[i]) * w);
        }
        rounding += 0.51 * amax / 127.0 * weights;
      }
      const auto steps = static_cast<double>(4 + int4_groups(k));
      const double bound = rounding + steps * 0x1p-24 * (magnitude + rounding);
      const float got = c[static_cast<size_t>(row * p.c_stride + column)];
      ASSERT_LE(std::fabs(static_cast<double>(got) - sum), bound) << row << "," << column;
    }
    for (int64_t beyond = p.weights.n; beyond < p.c_stride; ++beyond) {
      const auto at = static_cast<size_t>(row * p.c_stride + beyond);
      ASSERT_TRUE(same_bits(c[at], p.c_before[at])) << "written beyond row " << row;
    }
  }
}

TEST_P(Int4Gemm, ActivationsInBytesStayWithinTheirBoundOnEveryShape) {
  device::ThreadPool pool({.threads = 2});
  Random random(41);
  for (const int64_t n : {1, 17, 40, 200}) {
    for (const int64_t k : {1, 31, 32, 64, 75, 301}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 9, 33}) {
        Problem problem(random, rows, n, k, n == 40 ? Start::kBias : Start::kResidual);
        problem.activations = Activations::kInt8;
        ASSERT_NO_FATAL_FAILURE(
            expect_within_byte_bound(problem, problem.run(kernels().gemm, pool)));
      }
    }
  }
}

// Byte sums are exact, so even tiles have the bits of the reference.
TEST_P(Int4Gemm, ActivationsInBytesGiveTheBitsOfTheReference) {
  const KernelSet ref = *select_kernels(device::detect_cpu(), device::Isa::kRef);
  device::ThreadPool pool({.threads = 2});
  Random random(42);
  for (const int64_t rows : {1, 2, 3, 4, 5, 8, 13, 40, 270}) {
    for (const Start start : {Start::kZero, Start::kBias, Start::kResidual}) {
      Problem problem(random, rows, 70, 331, start);
      problem.activations = Activations::kInt8;
      // Codes at their ends, so that 16-bit sums reach the most they can; and groups of zero, of
      // one outlier, of subnormal values.
      for (int64_t i = 0; i < 32; ++i) {
        problem.a[static_cast<size_t>(i)] = i % 4 < 2 ? 3.0f : -3.0f;
        problem.a[static_cast<size_t>(32 + i)] = 0.0f;
        problem.a[static_cast<size_t>(64 + i)] *= i == 5 ? 1e6f : 1.0f;
        problem.a[static_cast<size_t>(96 + i)] *= 0x1p-130f;
        problem.a[static_cast<size_t>(128 + i)] = 1.0f;
      }
      std::fill_n(problem.weights.codes.begin(), 331, uint8_t{15});
      std::fill_n(problem.weights.codes.begin() + 331, 331, uint8_t{0});
      problem.weights.pack();
      EXPECT_TRUE(same_bits(problem.run(ref.gemm, pool), problem.run(kernels().gemm, pool)))
          << "rows " << rows;
    }
  }
}

TEST_P(Int4Gemm, ActivationsInBytesHaveTheSameBitsAloneInABatchAndInTightScratch) {
  device::ThreadPool pool({.threads = 2});
  device::ThreadPool tight({.threads = 3, .scratch_bytes = 64 << 10});
  Random random(43);
  const int64_t rows = 60;
  Problem problem(random, rows, 150, 3000, Start::kResidual);
  problem.activations = Activations::kInt8;
  const std::vector<float> together = problem.run(kernels().gemm, pool);
  for (const int64_t step : {1, 7, 33}) {
    std::vector<float> split = problem.c_before;
    for (int64_t row = 0; row < rows; row += step) {
      problem.run(kernels().gemm, pool, split, row, std::min(step, rows - row));
    }
    EXPECT_TRUE(same_bits(together, split)) << step;
  }
  EXPECT_TRUE(same_bits(together, problem.run(kernels().gemm, tight)));
}

TEST_P(Int4Gemm, ActivationsInBytesKeepNanAndInfinityInTheirRow) {
  device::ThreadPool pool({.threads = 2});
  Random random(44);
  for (const float bad : {NAN, -INFINITY}) {
    Problem problem(random, 9, 33, 75, Start::kZero);
    problem.activations = Activations::kInt8;
    problem.a[static_cast<size_t>(4 * problem.a_stride + 10)] = bad;
    const std::vector<float> c = problem.run(kernels().gemm, pool);
    for (int64_t row = 0; row < problem.rows; ++row) {
      for (int64_t column = 0; column < 33; ++column) {
        EXPECT_EQ(std::isnan(c[static_cast<size_t>(row * problem.c_stride + column)]), row == 4);
      }
    }
  }
}

// Weight 1 in one place, nothing elsewhere: what a path reads out of each nibble.
TEST_P(Int4Gemm, EveryNibbleInEveryPlaceIsItsCode) {
  device::ThreadPool pool({.threads = 2});
  Random random(15);
  const int64_t n = 16;
  const int64_t k = 64 + 13;
  Int4Weights weights(random, n, k);
  std::fill(weights.scales.begin(), weights.scales.end(), quant::float_to_bf16(1.0f));
  // Row counts on both sides of the switch from registers to a widened stretch.
  for (const int64_t rows : {int64_t{1}, int64_t{3}, k}) {
    std::vector<float> a(static_cast<size_t>(rows * k));
    std::vector<float> c(static_cast<size_t>(rows * n));
    for (int shift = 0; shift < 16; ++shift) {
      for (int64_t i = 0; i < n * k; ++i) {
        weights.codes[static_cast<size_t>(i)] =
            static_cast<uint8_t>((i / k * 7 + i % k * 3 + i % k / 16 + shift) % 16);
      }
      weights.pack();
      for (int64_t first = 0; first < k; first += rows) {
        std::fill(a.begin(), a.end(), 0.0f);
        const int64_t count = std::min(rows, k - first);
        for (int64_t row = 0; row < count; ++row) {
          a[static_cast<size_t>(row * k + first + row)] = 1.0f;
        }
        GemmArgs args;
        args.a = a.data();
        args.a_stride = k;
        args.rows = rows;
        args.w = weights.packed();
        args.c = c.data();
        args.c_stride = n;
        kernels().gemm(args, pool);
        for (int64_t row = 0; row < count; ++row) {
          for (int64_t column = 0; column < n; ++column) {
            ASSERT_EQ(static_cast<double>(c[static_cast<size_t>(row * n + column)]),
                      weights.at(column, first + row))
                << "k " << first + row << " column " << column << " rows " << rows;
          }
        }
      }
    }
  }
}

TEST_P(Int4Gemm, ScalesMayBeZeroNegativeTinyAndHuge) {
  device::ThreadPool pool({.threads = 2});
  Random random(16);
  for (const float scale : {0.0f, -0.5f, 0x1p-130f, 0x1p-100f, 0x1p100f}) {
    for (const int64_t rows : {1, 40}) {
      Problem problem(random, rows, 21, 96, Start::kZero);
      for (quant::Bf16& code : problem.weights.scales) code = quant::float_to_bf16(scale);
      problem.weights.pack();
      const std::vector<float> c = problem.run(kernels().gemm, pool);
      if (scale != 0x1p-130f) {
        // A subnormal scale leaves nothing within a relative bound, and tiles flush it.
        ASSERT_NO_FATAL_FAILURE(expect_within_bound(problem, c, rounds_activations()));
      }
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < 21; ++column) {
          const float value = c[static_cast<size_t>(row * problem.c_stride + column)];
          EXPECT_TRUE(std::isfinite(value));
          EXPECT_TRUE(scale != 0.0f || value == 0.0f);
        }
      }
    }
  }
}

TEST_P(Int4Gemm, NanAndInfinityStayInTheirRow) {
  device::ThreadPool pool({.threads = 2});
  Random random(17);
  for (const int64_t rows : {9, 40}) {
    Problem problem(random, rows, 33, 64, Start::kZero);
    problem.a[static_cast<size_t>(4 * problem.a_stride + 10)] = NAN;
    const std::vector<float> c = problem.run(kernels().gemm, pool);
    for (int64_t row = 0; row < problem.rows; ++row) {
      for (int64_t column = 0; column < 33; ++column) {
        EXPECT_EQ(std::isnan(c[static_cast<size_t>(row * problem.c_stride + column)]), row == 4);
      }
    }
  }
}

TEST_P(Int4Gemm, AGroupHasTheBitsOfItsProductsAlone) {
  device::ThreadPool pool({.threads = 2});
  Random random(18);
  std::vector<Problem> problems;
  problems.reserve(100);
  for (int64_t i = 0; i < 100; ++i) {
    problems.emplace_back(random, i % 7 == 3 ? 0 : 1 + i * i % 40, 16 + i % 35, 32 + i % 90,
                          i % 2 == 0 ? Start::kZero : Start::kResidual);
    if (i % 10 > 4) problems.back().activations = Activations::kInt8;
  }
  std::vector<std::vector<float>> together;
  std::vector<GemmArgs> group;
  together.reserve(problems.size());
  group.reserve(problems.size());
  for (const Problem& problem : problems) {
    together.push_back(problem.c_before);
    group.push_back(problem.args(together.back(), 0, problem.rows));
  }
  kernels().gemm_group(group, pool);
  for (size_t i = 0; i < problems.size(); ++i) {
    ASSERT_TRUE(same_bits(together[i], problems[i].run(kernels().gemm, pool))) << "product " << i;
  }
}

BH_INSTANTIATE_FOR_EVERY_ISA(Int4Gemm);

TEST(Int4GemmPaths, TheVectorPathsAgreeWithTheReferenceBitByBit) {
  const device::CpuFacts cpu = device::detect_cpu();
  const KernelSet ref = *select_kernels(cpu, device::Isa::kRef);
  device::ThreadPool pool({.threads = 2});
  Random random(21);
  for (const IsaSupport& path : isa_support(cpu)) {
    if (path.isa == device::Isa::kAmx) continue;
    if (!path.runnable) {
      std::printf("NOT RUN: %s\n", path.reason.c_str());
      continue;
    }
    const KernelSet set = *select_kernels(cpu, path.isa);
    for (const int64_t rows : {1, 2, 3, 4, 6, 8, 13, 25, 40, 270}) {
      for (const int64_t k : {64, 75, 531, 1120}) {
        for (const Start start : {Start::kZero, Start::kBias, Start::kResidual}) {
          const Problem problem(random, rows, 70, k, start);
          EXPECT_TRUE(same_bits(problem.run(ref.gemm, pool), problem.run(set.gemm, pool)))
              << device::to_string(path.isa) << " rows " << rows << " k " << k;
        }
      }
    }
  }
}

void emulated_gemm(const GemmArgs& args, device::ThreadPool& pool) {
  amx::gemm(kEmulatedTileOps, args, pool);
}

TEST(Int4GemmEmulatedTiles, StaysWithinItsBoundOnEveryShape) {
  device::ThreadPool pool({.threads = 2});
  Random random(31);
  for (const int64_t n : {1, 17, 40, 83}) {
    for (const int64_t k : {1, 31, 33, 64, 600}) {
      for (const int64_t rows : {1, 15, 17, 33, 50}) {
        for (const Start start : {Start::kZero, Start::kBias, Start::kResidual}) {
          const Problem problem(random, rows, n, k, start);
          ASSERT_NO_FATAL_FAILURE(
              expect_within_bound(problem, problem.run(emulated_gemm, pool), true));
        }
      }
    }
  }
}

TEST(Int4GemmEmulatedTiles, ARowHasTheSameBitsAloneAndInABatch) {
  device::ThreadPool pool({.threads = 2});
  Random random(32);
  const int64_t rows = 50;
  const Problem problem(random, rows, 70, 600, Start::kResidual);
  const std::vector<float> together = problem.run(emulated_gemm, pool);
  for (const int64_t step : {1, 16, 17}) {
    std::vector<float> split = problem.c_before;
    for (int64_t row = 0; row < rows; row += step) {
      problem.run(emulated_gemm, pool, split, row, std::min(step, rows - row));
    }
    EXPECT_TRUE(same_bits(together, split)) << step;
  }
}

TEST(Int4Panels, EveryElementStandsWhereTheHeaderSays) {
  Random random(1);
  for (const int64_t k : {1, 2, 31, 32, 33, 64, 70, 200}) {
    for (const int64_t n : {1, 15, 16, 17, 40}) {
      const Int4Weights weights(random, n, k);
      const auto* packed = reinterpret_cast<const uint8_t*>(weights.bytes.data());
      std::vector<uint8_t> expected(weights.bytes.size());
      for (int64_t row = 0; row < n; ++row) {
        const int64_t panel = row / 16 * ((k + 63) / 64 * 576);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t dword = panel + i / 64 * 576 + i % 64 / 8 * 64 + row % 16 * 4;
          const uint8_t code = weights.codes[static_cast<size_t>(row * k + i)];
          expected[static_cast<size_t>(dword + i % 8 / 2)] |=
              static_cast<uint8_t>(code << (i % 2 * 4));
        }
        for (int64_t group = 0; group < (k + 31) / 32; ++group) {
          const int64_t scale = panel + group / 2 * 576 + 512 + group % 2 * 32 + row % 16 * 2;
          std::memcpy(expected.data() + scale,
                      &weights.scales[static_cast<size_t>(row * ((k + 31) / 32) + group)], 2);
        }
      }
      ASSERT_EQ(std::memcmp(packed, expected.data(), expected.size()), 0) << n << " x " << k;
    }
  }
}

TEST(Int4Panels, RowsMayArriveInPiecesAndBeReadBack) {
  Random random(3);
  const int64_t n = 50;
  const int64_t k = 77;
  const Int4Weights whole(random, n, k);
  device::Buffer pieces = testing::aligned_bytes(whole.bytes.size());
  for (int64_t row = 0; row < n; row += 7) {
    pack_rows_int4(whole.codes.data() + row * k, whole.scales.data() + row * int4_groups(k), row,
                   std::min<int64_t>(7, n - row), k, pieces.data());
  }
  EXPECT_EQ(std::memcmp(pieces.data(), whole.bytes.data(), pieces.size()), 0);
  std::vector<float> out(static_cast<size_t>(k));
  for (int64_t row = 0; row < n; ++row) {
    unpack_row_int4(whole.bytes.data(), k, row, out.data());
    for (int64_t i = 0; i < k; ++i) {
      ASSERT_EQ(static_cast<double>(out[static_cast<size_t>(i)]), whole.at(row, i));
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
