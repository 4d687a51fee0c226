#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/gemm_test_support.h"
#include "kernels/vector/drivers.h"

namespace bulkhead::kernels {
namespace {

using testing::emulated_gemm;
using testing::expect_within_bound;
using testing::Problem;
using testing::Random;
using testing::same_bits;
using testing::Start;

constexpr WeightFormat kFormats[] = {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kInt4};

class Gemm : public testing::EveryIsa {};

TEST_P(Gemm, StaysWithinItsBoundOnEveryShape) {
  device::ThreadPool pool({.threads = 2});
  Random random(11);
  for (const WeightFormat format : kFormats) {
    for (const int64_t n : {1, 16, 17, 40, 200}) {
      for (const int64_t k : {1, 2, 31, 64, 301}) {
        for (const int64_t rows : {1, 2, 3, 5, 8, 17, 33}) {
          const Problem problem(random, rows, n, k, Start::kZero, format);
          ASSERT_NO_FATAL_FAILURE(expect_within_bound(problem, problem.run(kernels().gemm, pool),
                                                      rounds_activations()));
        }
      }
    }
  }
}

// C027
TEST_P(Gemm, EveryRowCountUpToFortyAndAroundTheBlocksIsRight) {
  device::ThreadPool pool({.threads = 2});
  Random random(12);
  std::vector<int64_t> counts(40);
  std::iota(counts.begin(), counts.end(), 1);
  for (const int64_t edge : {48, 64, 255, 256, 257, 300}) counts.push_back(edge);
  for (const WeightFormat format : kFormats) {
    for (const int64_t rows : counts) {
      const Problem problem(random, rows, 35, 167, Start::kBias, format);
      ASSERT_NO_FATAL_FAILURE(
          expect_within_bound(problem, problem.run(kernels().gemm, pool), rounds_activations()));
    }
  }
}

TEST_P(Gemm, StartsFromNothingABiasOrAResidual) {
  device::ThreadPool pool({.threads = 2});
  Random random(13);
  for (const WeightFormat format : kFormats) {
    for (const Start start : {Start::kZero, Start::kBias, Start::kResidual}) {
      for (const int64_t rows : {1, 7, 40}) {
        // k beyond one block, so that later blocks must continue the sums.
        const Problem problem(random, rows, 53, 1100, start, format);
        ASSERT_NO_FATAL_FAILURE(
            expect_within_bound(problem, problem.run(kernels().gemm, pool), rounds_activations()));
      }
    }
  }
}

TEST_P(Gemm, ARowHasTheSameBitsAloneInABatchAndInAnySplit) {
  device::ThreadPool pool({.threads = 2});
  Random random(14);
  for (const WeightFormat format : kFormats) {
    for (const int64_t k : {65, 600, 1100}) {
      const int64_t rows = 64;
      const Problem problem(random, rows, 150, k, Start::kResidual, format);
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
}

// C027
TEST_P(Gemm, ManyRowsHaveTheBitsOfFewRows) {
  device::ThreadPool pool({.threads = 2});
  Random random(15);
  // Rows and k large enough for every blocking the drivers know.
  const int64_t rows = 300;
  for (const WeightFormat format : kFormats) {
    const Problem problem(random, rows, 37, 700, Start::kBias, format);
    const std::vector<float> together = problem.run(kernels().gemm, pool);
    for (const int64_t row : {int64_t{0}, int64_t{149}, int64_t{150}, int64_t{299}}) {
      std::vector<float> alone = problem.c_before;
      problem.run(kernels().gemm, pool, alone, row, 1);
      for (int64_t column = 0; column < 37; ++column) {
        const auto at = static_cast<size_t>(row * problem.c_stride + column);
        ASSERT_TRUE(same_bits(together[at], alone[at])) << row << "," << column;
      }
    }
  }
}

TEST_P(Gemm, TheNumberOfThreadsDoesNotShow) {
  Random random(16);
  for (const WeightFormat format : kFormats) {
    const Problem problem(random, 20, 260, 300, Start::kZero, format);
    device::ThreadPool one({.threads = 1});
    const std::vector<float> expected = problem.run(kernels().gemm, one);
    for (const unsigned threads : {2u, 3u, 5u}) {
      device::ThreadPool pool({.threads = threads});
      EXPECT_TRUE(same_bits(expected, problem.run(kernels().gemm, pool))) << threads;
    }
  }
}

TEST_P(Gemm, NanAndInfinityStayInTheirRowAndColumn) {
  device::ThreadPool pool({.threads = 2});
  Random random(17);
  for (const WeightFormat format : kFormats) {
    for (const int64_t rows : {9, 40}) {
      Problem problem(random, rows, 33, 64, Start::kZero, format);
      problem.a[static_cast<size_t>(4 * problem.a_stride + 10)] = NAN;
      const std::vector<float> c = problem.run(kernels().gemm, pool);
      for (int64_t row = 0; row < problem.rows; ++row) {
        for (int64_t column = 0; column < 33; ++column) {
          EXPECT_EQ(std::isnan(c[static_cast<size_t>(row * problem.c_stride + column)]), row == 4);
        }
      }
    }
  }
}

// Products of many sizes as one group, beside each alone.
template <typename Group>
void expect_bits_of_products_alone(Group gemm_group, GemmFn gemm, device::ThreadPool& pool) {
  Random random(18);
  std::vector<Problem> problems;
  problems.reserve(150);
  for (int64_t i = 0; i < 150; ++i) {
    problems.emplace_back(random, i % 7 == 3 ? 0 : 1 + i * i % 40, 16 + i % 35, 32 + i % 190,
                          i % 2 == 0 ? Start::kZero : Start::kResidual,
                          kFormats[static_cast<size_t>(i / 3) % std::size(kFormats)]);
  }
  std::vector<std::vector<float>> together;
  std::vector<GemmArgs> group;
  together.reserve(problems.size());
  group.reserve(problems.size());
  for (const Problem& problem : problems) {
    together.push_back(problem.c_before);
    group.push_back(problem.args(together.back(), 0, problem.rows));
  }
  gemm_group(group, pool);
  for (size_t i = 0; i < problems.size(); ++i) {
    ASSERT_TRUE(same_bits(together[i], problems[i].run(gemm, pool))) << "product " << i;
  }
}

TEST_P(Gemm, AGroupHasTheBitsOfItsProductsAlone) {
  device::ThreadPool pool({.threads = 2});
  expect_bits_of_products_alone(kernels().gemm_group, kernels().gemm, pool);
}

BH_INSTANTIATE_FOR_EVERY_ISA(Gemm);

// Every leaf library beside its set's name; AVX-512 has three of them, of which a set uses one.
struct VectorPath {
  const char* name;
  const VectorOps* ops;
  bool runnable;
};

std::vector<VectorPath> vector_paths() {
  const device::CpuFacts cpu = device::detect_cpu();
  return {{"avx2", &kAvx2Ops, cpu.avx2_fma_f16c},
          {"avx512", &kAvx512Ops, cpu.avx512},
          {"avx512 with vnni", &kAvx512VnniOps, cpu.avx512_vbmi},
          {"avx512 with vbmi", &kAvx512VbmiOps, cpu.avx512_vbmi}};
}

TEST(GemmPaths, TheVectorPathsAgreeWithTheReferenceBitByBit) {
  const KernelSet ref = *select_kernels(device::detect_cpu(), device::Isa::kRef);
  device::ThreadPool pool({.threads = 2});
  Random random(21);
  for (const VectorPath& path : vector_paths()) {
    if (!path.runnable) {
      std::printf("NOT RUN: no %s here\n", path.name);
      continue;
    }
    for (const WeightFormat format : kFormats) {
      for (const int64_t rows : {1, 2, 3, 4, 6, 7, 8, 12, 13, 25, 40, 270}) {
        for (const Start start : {Start::kZero, Start::kBias, Start::kResidual}) {
          const Problem problem(random, rows, 70, 531, start, format);
          std::vector<float> c = problem.c_before;
          vector::gemm(*path.ops, problem.args(c, 0, rows), pool);
          EXPECT_TRUE(same_bits(problem.run(ref.gemm, pool), c))
              << path.name << " format " << static_cast<int>(format) << " rows " << rows;
        }
      }
    }
  }
}

// Few rows take eight panels at once, four, or one of what is left over: 94 panels are dealt out as
// eleven times eight, then four, one, and one with fewer columns.
TEST(GemmPaths, FewRowsOfInt4AgreeWithTheReferenceInEveryWidth) {
  const KernelSet ref = *select_kernels(device::detect_cpu(), device::Isa::kRef);
  device::ThreadPool pool({.threads = 1});
  Random random(23);
  for (const int64_t rows : {1, 2, 3}) {
    for (const Activations activations : {Activations::kFp32, Activations::kInt8}) {
      for (const int64_t k : {64, 331}) {
        Problem problem(random, rows, 1500, k, Start::kResidual, WeightFormat::kInt4);
        problem.activations = activations;
        const std::vector<float> expected = problem.run(ref.gemm, pool);
        for (const VectorPath& path : vector_paths()) {
          if (!path.runnable) continue;
          std::vector<float> c = problem.c_before;
          vector::gemm(*path.ops, problem.args(c, 0, rows), pool);
          EXPECT_TRUE(same_bits(expected, c)) << path.name << " rows " << rows << " k " << k
                                              << " bytes " << (activations == Activations::kInt8);
        }
      }
    }
  }
}

// Rows whose copy would not fit are lifted a stretch at a time.
TEST(GemmPaths, VeryLongRowsOverFp8NeedNoMoreScratchThanShortOnes) {
  const KernelSet ref = *select_kernels(device::detect_cpu(), device::Isa::kRef);
  device::ThreadPool pool({.threads = 2, .scratch_bytes = 305 << 10});
  Random random(22);
  for (const int64_t rows : {1, 3, 9, 17}) {
    const Problem problem(random, rows, 17, 100'003, Start::kResidual, WeightFormat::kFp8);
    const std::vector<float> expected = problem.run(ref.gemm, pool);
    for (const VectorPath& path : vector_paths()) {
      if (!path.runnable) continue;
      std::vector<float> c = problem.c_before;
      vector::gemm(*path.ops, problem.args(c, 0, rows), pool);
      EXPECT_TRUE(same_bits(expected, c)) << path.name << " rows " << rows;
    }
  }
}

// One row of the unit vector k: what comes out is the value of every code, exactly.
TEST(GemmPaths, EveryFp8CodeIsReadExactlyWhereverItStands) {
  device::ThreadPool pool({.threads = 1});
  // Column n holds code n at every k; the last one stands for NaN codes, which a checkpoint with
  // any is refused for.
  constexpr int64_t kCodes = 256;
  constexpr int64_t kK = 8;
  std::vector<quant::Fp8> codes(kCodes * kK);
  for (int64_t n = 0; n < kCodes; ++n) {
    const auto code = static_cast<quant::Fp8>(n % 128 == 127 ? 0 : n);
    std::fill_n(codes.begin() + n * kK, kK, code);
  }
  const std::vector<float> scales(kCodes, 1.0f);
  device::Buffer packed = testing::aligned_bytes(packed_bytes(WeightFormat::kFp8, kCodes, kK));
  pack_rows_fp8(codes.data(), scales.data(), 0, kCodes, kK, packed.data());
  for (const VectorPath& path : vector_paths()) {
    if (!path.runnable) continue;
    // Few rows read the codes as they stand, many rows a copy in BF16.
    for (const int64_t rows : {kK, int64_t{40}}) {
      std::vector<float> a(static_cast<size_t>(rows * kK), 0.0f);
      for (int64_t row = 0; row < rows; ++row) a[static_cast<size_t>(row * kK + row % kK)] = 1.0f;
      std::vector<float> c(static_cast<size_t>(rows * kCodes), NAN);
      vector::gemm(*path.ops,
                   {.a = a.data(),
                    .a_stride = kK,
                    .rows = rows,
                    .w = {packed.data(), kCodes, kK, WeightFormat::kFp8},
                    .c = c.data(),
                    .c_stride = kCodes},
                   pool);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t n = 0; n < kCodes; ++n) {
          const float value = quant::e4m3_to_float(codes[static_cast<size_t>(n * kK)]);
          ASSERT_EQ(c[static_cast<size_t>(row * kCodes + n)], value)
              << path.name << " code " << n << " k " << row % kK;
        }
      }
    }
  }
}

// The AMX tiling, edges and packing, on the emulated tile unit.
TEST(GemmEmulatedTiles, StaysWithinItsBoundOnEveryShape) {
  device::ThreadPool pool({.threads = 2});
  Random random(31);
  for (const WeightFormat format : kFormats) {
    for (const int64_t n : {1, 16, 17, 40, 83}) {
      for (const int64_t k : {1, 31, 32, 33, 128, 300}) {
        for (const int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 50}) {
          for (const Start start : {Start::kZero, Start::kBias, Start::kResidual}) {
            const Problem problem(random, rows, n, k, start, format);
            ASSERT_NO_FATAL_FAILURE(
                expect_within_bound(problem, problem.run(emulated_gemm, pool), true));
          }
        }
      }
    }
  }
}

TEST(GemmEmulatedTiles, AGroupHasTheBitsOfItsProductsAlone) {
  for (const size_t scratch : {size_t{8} << 20, size_t{32} << 10}) {
    device::ThreadPool pool({.threads = 2, .scratch_bytes = scratch});
    expect_bits_of_products_alone(
        [](std::span<const GemmArgs> group, device::ThreadPool& threads) {
          amx::gemm_group(kEmulatedTileOps, group, threads);
        },
        emulated_gemm, pool);
  }
}

TEST(GemmEmulatedTiles, ARowHasTheSameBitsAloneAndInABatch) {
  device::ThreadPool pool({.threads = 2});
  Random random(32);
  const int64_t rows = 64;
  for (const WeightFormat format : kFormats) {
    const Problem problem(random, rows, 70, 600, Start::kResidual, format);
    const std::vector<float> together = problem.run(emulated_gemm, pool);
    for (const int64_t step : {1, 5, 16, 17, 33}) {
      std::vector<float> split = problem.c_before;
      for (int64_t row = 0; row < rows; row += step) {
        problem.run(emulated_gemm, pool, split, row, std::min(step, rows - row));
      }
      EXPECT_TRUE(same_bits(together, split)) << step;
    }
  }
}

TEST(GemmEmulatedTiles, RowsThatDoNotFitTheScratchAreDoneInBlocks) {
  Random random(33);
  const Problem problem(random, 100, 33, 500, Start::kBias);
  device::ThreadPool roomy({.threads = 2});
  // Two row tiles of 16 k tiles: 32 KiB.
  device::ThreadPool tight({.threads = 2, .scratch_bytes = 32 << 10});
  EXPECT_TRUE(same_bits(problem.run(emulated_gemm, roomy), problem.run(emulated_gemm, tight)));
}

}  // namespace
}  // namespace bulkhead::kernels
