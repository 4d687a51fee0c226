#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include "kernels/simd/vector_ops.h"
#include "kernels/test_support.h"

namespace bulkhead::kernels {
namespace {

using testing::Random;
using testing::same_bits;

class RowWise : public testing::EveryIsa {
 protected:
  device::ThreadPool pool_{{.threads = 2}};
};

TEST_P(RowWise, RmsNormStaysWithinItsBound) {
  Random random(1);
  for (const int64_t width : {1, 7, 16, 33, 576, 2048}) {
    for (const int64_t rows : {1, 3, 40}) {
      const int64_t stride = width + 2;
      std::vector<float> x = testing::random_floats(random, rows * stride, 3.0f);
      const std::vector<float> weight = testing::random_floats(random, width);
      std::vector<float> out(x.size(), 7.0f);
      kernels().rms_norm({.x = x.data(),
                          .x_stride = stride,
                          .out = out.data(),
                          .out_stride = stride,
                          .rows = rows,
                          .width = width,
                          .weight = weight.data(),
                          .eps = 1e-5f},
                         pool_);
      for (int64_t row = 0; row < rows; ++row) {
        double squares = 0.0;
        for (int64_t i = 0; i < width; ++i) {
          const auto v = static_cast<double>(x[static_cast<size_t>(row * stride + i)]);
          squares += v * v;
        }
        const double eps = static_cast<double>(1e-5f);
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
        for (int64_t i = 0; i < width; ++i) {
          const auto at = static_cast<size_t>(row * stride + i);
          const double expected = static_cast<double>(x[at]) * factor *
                                  static_cast<double>(weight[static_cast<size_t>(i)]);
          ASSERT_LE(std::fabs(static_cast<double>(out[at]) - expected),
                    std::fabs(expected) * 0x1p-21)
              << width;
        }
        ASSERT_EQ(out[static_cast<size_t>(row * stride + width)], 7.0f);
      }
      // In place gives the same bits.
      std::vector<float> in_place = x;
      kernels().rms_norm({.x = in_place.data(),
                          .x_stride = stride,
                          .out = in_place.data(),
                          .out_stride = stride,
                          .rows = rows,
                          .width = width,
                          .weight = weight.data(),
                          .eps = 1e-5f},
                         pool_);
      for (int64_t row = 0; row < rows; ++row) {
        const auto first = static_cast<size_t>(row * stride);
        const auto count = static_cast<size_t>(width);
        ASSERT_TRUE(same_bits(std::span(in_place).subspan(first, count),
                              std::span(out).subspan(first, count)));
      }
    }
  }
}

TEST_P(RowWise, RmsNormOfARowDoesNotDependOnItsBatch) {
  Random random(2);
  const int64_t width = 577;
  const std::vector<float> x = testing::random_floats(random, 64 * width);
  const std::vector<float> weight = testing::random_floats(random, width);
  std::vector<float> together(x.size());
  std::vector<float> alone(x.size());
  RmsNormArgs args{.x = x.data(),
                   .x_stride = width,
                   .out = together.data(),
                   .out_stride = width,
                   .rows = 64,
                   .width = width,
                   .weight = weight.data(),
                   .eps = 1e-6f};
  kernels().rms_norm(args, pool_);
  args.rows = 1;
  for (int64_t row = 0; row < 64; ++row) {
    args.x = x.data() + row * width;
    args.out = alone.data() + row * width;
    kernels().rms_norm(args, pool_);
  }
  EXPECT_TRUE(same_bits(together, alone));
}

TEST_P(RowWise, RopeRotatesHalfSplitPairsAndLeavesTheRest) {
  Random random(3);
  struct Shape {
    int32_t heads, head_dim, half;
  };
  for (const Shape shape :
       {Shape{3, 64, 32}, Shape{1, 24, 12}, Shape{5, 72, 20}, Shape{2, 128, 64}, Shape{2, 10, 1}}) {
    const int64_t rows = 9;
    const int64_t stride = int64_t{shape.heads} * shape.head_dim + 1;
    const std::vector<float> before = testing::random_floats(random, rows * stride);
    const std::vector<float> cos = testing::random_floats(random, rows * shape.half);
    const std::vector<float> sin = testing::random_floats(random, rows * shape.half);
    std::vector<float> x = before;
    kernels().rope({.x = x.data(),
                    .x_stride = stride,
                    .rows = rows,
                    .heads = shape.heads,
                    .head_dim = shape.head_dim,
                    .half = shape.half,
                    .cos = cos.data(),
                    .sin = sin.data()},
                   pool_);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < stride; ++i) {
        const int64_t dim = i % shape.head_dim;
        const bool padding = i == stride - 1;
        const auto at = static_cast<size_t>(row * stride + i);
        if (padding || dim >= 2 * shape.half) {
          ASSERT_TRUE(same_bits(x[at], before[at]));
          continue;
        }
        const int64_t pair = dim % shape.half;
        const auto low = static_cast<size_t>(row * stride + i - dim + pair);
        const auto angle = static_cast<size_t>(row * shape.half + pair);
        const auto a = static_cast<double>(before[low]);
        const auto b = static_cast<double>(before[low + static_cast<size_t>(shape.half)]);
        const auto c = static_cast<double>(cos[angle]);
        const auto s = static_cast<double>(sin[angle]);
        const double expected = dim < shape.half ? a * c - b * s : b * c + a * s;
        ASSERT_NEAR(static_cast<double>(x[at]), expected, 0x1p-22);
      }
    }
  }
}

TEST_P(RowWise, SwigluStaysWithinItsBoundOverTheWholeRange) {
  Random random(4);
  for (const int64_t width : {1, 5, 16, 100, 1537}) {
    const int64_t rows = 4;
    const int64_t stride = width + 3;
    std::vector<float> gate = testing::random_floats(random, rows * stride, 120.0f);
    for (size_t i = 0; i < gate.size(); i += 3) gate[i] *= 0.02f;
    const std::vector<float> up = testing::random_floats(random, rows * stride);
    std::vector<float> out(gate.size(), 7.0f);
    kernels().swiglu({.gate = gate.data(),
                      .up = up.data(),
                      .out = out.data(),
                      .stride = stride,
                      .out_stride = stride,
                      .rows = rows,
                      .width = width},
                     pool_);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        const auto at = static_cast<size_t>(row * stride + i);
        const auto g = static_cast<double>(gate[at]);
        const double expected = g / (1.0 + std::exp(-g)) * static_cast<double>(up[at]);
        // exp to 2 ulp, then four roundings; under 2^-110 the flushed tail of exp shows.
        ASSERT_LE(std::fabs(static_cast<double>(out[at]) - expected),
                  std::fabs(expected) * 0x1p-21 + 0x1p-110)
            << g;
      }
      ASSERT_EQ(out[static_cast<size_t>(row * stride + width)], 7.0f);
    }
    std::vector<float> in_place = gate;
    kernels().swiglu({.gate = in_place.data(),
                      .up = up.data(),
                      .out = in_place.data(),
                      .stride = stride,
                      .out_stride = stride,
                      .rows = rows,
                      .width = width},
                     pool_);
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_TRUE(same_bits(in_place[static_cast<size_t>(i)], out[static_cast<size_t>(i)]));
    }
  }
}

BH_INSTANTIATE_FOR_EVERY_ISA(RowWise);

struct NamedOps {
  device::Isa isa;
  const VectorOps* ops;
};
const NamedOps kVectorPaths[] = {{device::Isa::kAvx2, &kAvx2Ops},
                                 {device::Isa::kAvx512, &kAvx512Ops}};

double ulp_of(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - 24);
}

TEST(Exponential, IsWithinTwoUlpWhereItIsNotFlushed) {
  for (const NamedOps& path : kVectorPaths) {
    if (!device::available(device::detect_cpu(), path.isa)) {
      std::printf("NOT RUN: exponential %s\n", std::string(device::to_string(path.isa)).c_str());
      continue;
    }
    double worst = 0.0;
    std::vector<float> x(1600);
    std::vector<float> y(1600);
    for (double base = -86.6; base < 88.72; base += 0.01) {
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(base + 0.01 * static_cast<double>(i) / 1600.0);
      }
      path.ops->exponential(x.data(), y.data(), 1600);
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] < -86.6f || x[i] > 88.7228f) continue;
        const double expected = std::exp(static_cast<double>(x[i]));
        const double error = std::fabs(static_cast<double>(y[i]) - expected) / ulp_of(expected);
        worst = std::max(worst, error);
      }
    }
    std::printf("exp %s: worst error %.3f ulp, allowed 2\n",
                std::string(device::to_string(path.isa)).c_str(), worst);
    EXPECT_LE(worst, 2.0);
  }
}

TEST(Exponential, ItsEndsAreZeroInfinityAndNan) {
  for (const NamedOps& path : kVectorPaths) {
    if (!device::available(device::detect_cpu(), path.isa)) continue;
    const float x[] = {0.0f, -0.0f, -86.61f, -200.0f, -INFINITY, 88.73f, 1000.0f, INFINITY, NAN};
    float y[9];
    path.ops->exponential(x, y, 9);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    for (int i : {2, 3, 4}) EXPECT_EQ(y[i], 0.0f) << i;
    for (int i : {5, 6, 7}) EXPECT_EQ(y[i], INFINITY) << i;
    EXPECT_TRUE(std::isnan(y[8]));
  }
}

TEST(VectorPaths, Avx2AndAvx512AgreeBitByBitOnRowWiseWork) {
  const device::CpuFacts cpu = device::detect_cpu();
  if (!device::available(cpu, device::Isa::kAvx512)) GTEST_SKIP() << "NOT RUN: no avx512 here";
  Random random(5);
  for (const int64_t width : {1, 15, 16, 100, 577}) {
    const std::vector<float> x = testing::random_floats(random, width, 20.0f);
    const std::vector<float> w = testing::random_floats(random, width);
    std::vector<float> narrow(x.size());
    std::vector<float> wide(x.size());
    kAvx2Ops.rms_norm(x.data(), w.data(), 1e-5f, narrow.data(), width);
    kAvx512Ops.rms_norm(x.data(), w.data(), 1e-5f, wide.data(), width);
    EXPECT_TRUE(same_bits(narrow, wide));
    kAvx2Ops.swiglu(x.data(), w.data(), narrow.data(), width);
    kAvx512Ops.swiglu(x.data(), w.data(), wide.data(), width);
    EXPECT_TRUE(same_bits(narrow, wide));
    narrow = x;
    wide = x;
    const SoftmaxState a = kAvx2Ops.softmax(narrow.data(), width);
    const SoftmaxState b = kAvx512Ops.softmax(wide.data(), width);
    EXPECT_TRUE(same_bits(narrow, wide));
    EXPECT_TRUE(same_bits(a.max, b.max));
    EXPECT_TRUE(same_bits(a.sum, b.sum));
  }
}

}  // namespace
}  // namespace bulkhead::kernels
