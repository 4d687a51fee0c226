#include "quant/fp8_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "quant/bf16.h"

namespace bulkhead::quant {
namespace {

struct Quantised {
  float scale = 0.0f;
  std::vector<Fp8> codes;
};

// A block of `columns` a row without gaps.
Quantised quantise(const std::vector<float>& values, int64_t columns, ScaleRule rule) {
  Quantised result{0.0f, std::vector<Fp8>(values.size(), 0xff)};
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  result.scale =
      quantise_fp8_block(values.data(), columns, rows, columns, rule, result.codes.data(), columns);
  return result;
}

double squared_error(const std::vector<float>& values, const Quantised& quantised) {
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double stored = double{e4m3_to_float(quantised.codes[i])} * double{quantised.scale};
    sum += (values[i] - stored) * (values[i] - stored);
  }
  return sum;
}

std::vector<float> gaussian_block(base::Rng& rng, size_t size, double width) {
  std::vector<float> values(size);
  for (float& value : values) {
    const double draw =
        std::sqrt(-2.0 * std::log(1.0 - rng.unit())) * std::cos(6.283185307179586 * rng.unit());
    value = bf16_to_float(float_to_bf16(static_cast<float>(draw * width)));
  }
  return values;
}

TEST(Fp8Blocks, EveryBf16ValueHasTheCodeOfTheFormatWhereTheScaleIsOne) {
  std::vector<float> values = {448.0f};
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = bf16_to_float(static_cast<Bf16>(bits));
    if (std::fabs(value) <= 448.0f) values.push_back(value);
  }
  const Quantised result = quantise(values, static_cast<int64_t>(values.size()), ScaleRule::kAmax);
  EXPECT_EQ(result.scale, 1.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(result.codes[i], float_to_e4m3(values[i])) << values[i];
  }
}

TEST(Fp8Blocks, EveryMidpointAndItsNeighboursRoundAsTheFormatDoes) {
  std::vector<float> values = {448.0f};
  for (uint32_t code = 0; code < 0x7e; ++code) {
    const float low = e4m3_to_float(static_cast<Fp8>(code));
    const float middle = (low + e4m3_to_float(static_cast<Fp8>(code + 1))) / 2;
    for (const float value :
         {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  const Quantised result = quantise(values, static_cast<int64_t>(values.size()), ScaleRule::kAmax);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(result.codes[i], float_to_e4m3(values[i])) << values[i];
  }
}

TEST(Fp8Blocks, TheAmaxScaleIsTheLargestMagnitudeBy448WithinTheStatedError) {
  base::Rng rng(51);
  for (int i = 0; i < 40; ++i) {
    const auto rows = static_cast<int64_t>(1 + rng.below(kFp8Block));
    const auto columns = static_cast<int64_t>(1 + rng.below(kFp8Block));
    const auto values = gaussian_block(rng, static_cast<size_t>(rows * columns), 0.03);
    const Quantised result = quantise(values, columns, ScaleRule::kAmax);
    float amax = 0.0f;
    for (const float value : values) amax = std::max(amax, std::fabs(value));
    ASSERT_EQ(result.scale, amax / 448.0f);
    for (size_t k = 0; k < values.size(); ++k) {
      ASSERT_EQ(result.codes[k], float_to_e4m3(values[k] / result.scale));
      const double stored = double{e4m3_to_float(result.codes[k])} * double{result.scale};
      const double bound =
          std::max(std::fabs(double{values[k]}) * 0x1p-4, double{result.scale} * 0x1p-10);
      ASSERT_LE(std::fabs(values[k] - stored), bound * 1.000001);
    }
  }
}

TEST(Fp8Blocks, ASearchedScaleIsNeverWorseThanAmax) {
  base::Rng rng(52);
  double plain_error = 0.0;
  double found_error = 0.0;
  for (int i = 0; i < 60; ++i) {
    const auto columns = static_cast<int64_t>(1 + rng.below(kFp8Block));
    auto values = gaussian_block(rng, static_cast<size_t>(columns) * (1 + rng.below(64)), 0.03);
    if (i % 3 == 0) values[rng.below(values.size())] *= 30.0f;  // an outlier
    const double plain = squared_error(values, quantise(values, columns, ScaleRule::kAmax));
    const double found = squared_error(values, quantise(values, columns, ScaleRule::kSearch));
    ASSERT_LE(found, plain);
    plain_error += plain;
    found_error += found;
  }
  EXPECT_LT(found_error, 0.97 * plain_error);
}

TEST(Fp8Blocks, ABlockInsideAMatrixReadsAndWritesItsOwnPlacesAlone) {
  base::Rng rng(53);
  const int64_t stride = 50;
  const int64_t rows = 9;
  const int64_t columns = 21;
  const int64_t code_stride = 64;
  const auto matrix = gaussian_block(rng, static_cast<size_t>(rows * stride), 1.0);
  std::vector<float> block;
  for (int64_t row = 0; row < rows; ++row) {
    const auto line = matrix.begin() + row * stride + 13;
    block.insert(block.end(), line, line + columns);
  }
  for (const ScaleRule rule : {ScaleRule::kAmax, ScaleRule::kSearch}) {
    const Quantised alone = quantise(block, columns, rule);
    std::vector<Fp8> codes(static_cast<size_t>(rows * code_stride), 0x55);
    const float scale = quantise_fp8_block(matrix.data() + 13, stride, rows, columns, rule,
                                           codes.data(), code_stride);
    EXPECT_EQ(scale, alone.scale);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < code_stride; ++column) {
        const Fp8 code = codes[static_cast<size_t>(row * code_stride + column)];
        ASSERT_EQ(code, column < columns ? alone.codes[static_cast<size_t>(row * columns + column)]
                                         : 0x55);
      }
    }
  }
}

TEST(Fp8Blocks, ZerosHaveScaleOneAndKeepTheirSigns) {
  for (const ScaleRule rule : {ScaleRule::kAmax, ScaleRule::kSearch}) {
    const Quantised result = quantise({0.0f, -0.0f, 0.0f, 0.0f}, 2, rule);
    EXPECT_EQ(result.scale, 1.0f);
    EXPECT_EQ(result.codes, (std::vector<Fp8>{0x00, 0x80, 0x00, 0x00}));
  }
}

TEST(Fp8Blocks, TheLargestAndTheSmallestNumbersHaveUsableScales) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const ScaleRule rule : {ScaleRule::kAmax, ScaleRule::kSearch}) {
    const Quantised large = quantise({largest, -largest / 3}, 2, rule);
    EXPECT_TRUE(std::isfinite(large.scale));
    EXPECT_NEAR(e4m3_to_float(large.codes[0]) * large.scale / largest, 1.0, 0.0625);
    const Quantised small = quantise({smallest * 1000, -smallest, 0x1p-126f}, 3, rule);
    EXPECT_EQ(small.scale, 0x1p-126f);
    EXPECT_EQ(small.codes[2], float_to_e4m3(1.0f));
  }
}

// All but one value are best met by a scale of 0.97 * 2^-126, which is subnormal.
TEST(Fp8Blocks, ASearchedScaleIsNeverSubnormal) {
  std::vector<float> values(static_cast<size_t>(kFp8Block * kFp8Block), 144.0f * 0.97f * 0x1p-126f);
  values[77] = 480.0f * 0.97f * 0x1p-126f;
  const Quantised found = quantise(values, kFp8Block, ScaleRule::kSearch);
  EXPECT_GE(found.scale, 0x1p-126f);
  EXPECT_LE(squared_error(values, found),
            squared_error(values, quantise(values, kFp8Block, ScaleRule::kAmax)));
  // The same values where no scale is too small.
  for (float& value : values) value *= 0x1p20f;
  EXPECT_EQ(quantise(values, kFp8Block, ScaleRule::kSearch).scale, values[77] / 480.0f);
}

}  // namespace
}  // namespace bulkhead::quant
