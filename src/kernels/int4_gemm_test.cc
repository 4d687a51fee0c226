#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/gemm_test_support.h"
#include "kernels/int4_panels.h"

namespace bulkhead::kernels {
namespace {

using testing::expect_within_bound;
using testing::Problem;
using testing::Random;
using testing::same_bits;
using testing::Start;
using testing::TestWeights;

class Int4Gemm : public testing::EveryIsa {};

Problem int4_problem(Random& random, int64_t rows, int64_t n, int64_t k, Start start) {
  return {random, rows, n, k, start, WeightFormat::kInt4};
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
      const double steps = 3 + static_cast<double>(k) / 32;
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
        Problem problem =
            int4_problem(random, rows, n, k, n == 40 ? Start::kBias : Start::kResidual);
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
      Problem problem = int4_problem(random, rows, 70, 331, start);
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
      problem.weights.pack_int4();
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
  Problem problem = int4_problem(random, rows, 150, 3000, Start::kResidual);
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
    Problem problem = int4_problem(random, 9, 33, 75, Start::kZero);
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
  TestWeights weights(random, n, k, WeightFormat::kInt4);
  std::fill(weights.int4_scales.begin(), weights.int4_scales.end(), quant::float_to_bf16(1.0f));
  // Row counts on both sides of the switch from registers to a widened stretch.
  for (const int64_t rows : {int64_t{1}, int64_t{3}, k}) {
    std::vector<float> a(static_cast<size_t>(rows * k));
    std::vector<float> c(static_cast<size_t>(rows * n));
    for (int shift = 0; shift < 16; ++shift) {
      for (int64_t i = 0; i < n * k; ++i) {
        weights.codes[static_cast<size_t>(i)] =
            static_cast<uint8_t>((i / k * 7 + i % k * 3 + i % k / 16 + shift) % 16);
      }
      weights.pack_int4();
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
      Problem problem = int4_problem(random, rows, 21, 96, Start::kZero);
      for (quant::Bf16& code : problem.weights.int4_scales) code = quant::float_to_bf16(scale);
      problem.weights.pack_int4();
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

TEST_P(Int4Gemm, AGroupHasTheBitsOfItsProductsAlone) {
  device::ThreadPool pool({.threads = 2});
  Random random(18);
  std::vector<Problem> problems;
  problems.reserve(100);
  for (int64_t i = 0; i < 100; ++i) {
    problems.push_back(int4_problem(random, i % 7 == 3 ? 0 : 1 + i * i % 40, 16 + i % 35,
                                    32 + i % 90, i % 2 == 0 ? Start::kZero : Start::kResidual));
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

TEST(Int4Panels, EveryElementStandsWhereTheHeaderSays) {
  Random random(1);
  for (const int64_t k : {1, 2, 31, 32, 33, 64, 70, 200}) {
    for (const int64_t n : {1, 15, 16, 17, 40}) {
      const TestWeights weights(random, n, k, WeightFormat::kInt4);
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
                      &weights.int4_scales[static_cast<size_t>(row * ((k + 31) / 32) + group)], 2);
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
  const TestWeights whole(random, n, k, WeightFormat::kInt4);
  device::Buffer pieces = testing::aligned_bytes(whole.bytes.size());
  for (int64_t row = 0; row < n; row += 7) {
    pack_rows_int4(whole.codes.data() + row * k, whole.int4_scales.data() + row * int4_groups(k),
                   row, std::min<int64_t>(7, n - row), k, pieces.data());
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
