#include "quant/int4_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace bulkhead::quant {
namespace {

using Codes = std::array<uint8_t, kInt4Group>;

struct Quantised {
  float scale = 0.0f;
  Codes codes{};
};

Quantised quantise(std::span<const float> values, ScaleRule rule) {
  Quantised result;
  result.codes.fill(255);
  result.scale = bf16_to_float(quantise_int4_group(values, rule, result.codes.data()));
  return result;
}

double squared_error(std::span<const float> values, const Quantised& quantised) {
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double stored = (quantised.codes[i] - kInt4Zero) * double{quantised.scale};
    sum += (values[i] - stored) * (values[i] - stored);
  }
  return sum;
}

double gaussian(base::Rng& rng) {
  return std::sqrt(-2.0 * std::log(1.0 - rng.unit())) * std::cos(6.283185307179586 * rng.unit());
}

std::vector<float> gaussian_group(base::Rng& rng, double width, size_t size = kInt4Group) {
  std::vector<float> values(size);
  for (float& value : values) {
    value = bf16_to_float(float_to_bf16(static_cast<float>(gaussian(rng) * width)));
  }
  return values;
}

// The least squared error that any BF16 scale gives, by trying all of four octaves.
double least_error(std::span<const float> values) {
  double least = std::numeric_limits<double>::infinity();
  float amax = 0.0f;
  for (const float value : values) amax = std::max(amax, std::fabs(value));
  const Bf16 last = float_to_bf16(amax);
  for (auto bits = static_cast<Bf16>(last - 4 * 128); bits <= last; ++bits) {
    Quantised tried{bf16_to_float(bits), {}};
    for (size_t i = 0; i < values.size(); ++i) {
      const double code = std::nearbyint(double{values[i]} / double{tried.scale});
      tried.codes[i] = static_cast<uint8_t>(std::clamp(code, -8.0, 7.0) + kInt4Zero);
    }
    least = std::min(least, squared_error(values, tried));
  }
  return least;
}

TEST(Int4Groups, EveryBf16ValueBelowTheScaleRoundsByTheDefinition) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = bf16_to_float(static_cast<Bf16>(bits));
    if (!(std::fabs(value) <= 7.0f)) continue;
    const std::array values = {7.0f, value};
    const Quantised result = quantise(values, ScaleRule::kAmax);
    ASSERT_EQ(result.scale, 1.0f);
    ASSERT_EQ(result.codes[0], 15);
    ASSERT_EQ(result.codes[1], static_cast<int>(std::nearbyint(value)) + kInt4Zero) << value;
    ASSERT_EQ(result.codes[2], 255);
  }
}

TEST(Int4Groups, TheAmaxScaleIsOneSeventhOfTheLargestMagnitudeAndNeverGivesMinusEight) {
  base::Rng rng(41);
  for (int i = 0; i < 20000; ++i) {
    const auto values = gaussian_group(rng, std::ldexp(1.0, static_cast<int>(rng.below(40)) - 30));
    const Quantised result = quantise(values, ScaleRule::kAmax);
    float amax = 0.0f;
    for (const float value : values) amax = std::max(amax, std::fabs(value));
    ASSERT_EQ(result.scale, bf16_to_float(float_to_bf16(amax / 7.0f)));
    for (size_t k = 0; k < values.size(); ++k) {
      ASSERT_GE(result.codes[k], 1);
      ASSERT_LE(result.codes[k], 15);
      const double stored = (result.codes[k] - kInt4Zero) * double{result.scale};
      ASSERT_LE(std::fabs(values[k] - stored), 0.5001 * double{result.scale});
      ASSERT_LE(std::fabs(values[k] - stored), 1.005 * double{amax} / 14);
    }
  }
}

TEST(Int4Groups, ASearchedScaleIsNeverWorseThanAmaxAndCloseToTheBestThereIs) {
  base::Rng rng(42);
  double amax_error = 0.0;
  double found_error = 0.0;
  double best_error = 0.0;
  for (int i = 0; i < 2000; ++i) {
    const size_t size = 1 + rng.below(kInt4Group);
    const auto values = gaussian_group(rng, 0.02, size);
    const double plain = squared_error(values, quantise(values, ScaleRule::kAmax));
    const double found = squared_error(values, quantise(values, ScaleRule::kSearch));
    ASSERT_LE(found, plain * (1 + 1e-12));
    if (size < kInt4Group / 2) continue;  // a few values have a lucky scale far away
    amax_error += plain;
    found_error += found;
    best_error += least_error(values);
  }
  EXPECT_LT(found_error, 0.90 * amax_error);
  EXPECT_LT(found_error, 1.02 * best_error);
}

TEST(Int4Groups, ALargestValueThatIsNegativeMayTakeTheCodeThatHasNoPositiveTwin) {
  std::vector<float> values(kInt4Group);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16) - 8.0f;
  const Quantised searched = quantise(values, ScaleRule::kSearch);
  EXPECT_EQ(searched.scale, 1.0f);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(searched.codes[i], i % 16);
  EXPECT_EQ(squared_error(values, searched), 0.0);
}

TEST(Int4Groups, AGroupThatLiesOnAGridKeepsItsValues) {
  base::Rng rng(43);
  for (int i = 0; i < 5000; ++i) {
    const float step =
        bf16_to_float(static_cast<Bf16>(0x3c00 + rng.below(512)));  // 2^-7 to 2^-3, any mantissa
    std::vector<float> values(kInt4Group);
    for (float& value : values) value = (static_cast<float>(rng.below(15)) - 7.0f) * step;
    values[rng.below(kInt4Group)] = 7.0f * step;
    for (const ScaleRule rule : {ScaleRule::kAmax, ScaleRule::kSearch}) {
      const Quantised result = quantise(values, rule);
      ASSERT_EQ(result.scale, step);
      ASSERT_EQ(squared_error(values, result), 0.0);
    }
  }
}

TEST(Int4Groups, ZerosHaveScaleOne) {
  const std::vector<float> values = {0.0f, -0.0f, 0.0f};
  for (const ScaleRule rule : {ScaleRule::kAmax, ScaleRule::kSearch}) {
    const Quantised result = quantise(values, rule);
    EXPECT_EQ(result.scale, 1.0f);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(result.codes[i], kInt4Zero);
  }
}

TEST(Int4Groups, TheLargestAndTheSmallestNumbersHaveUsableScales) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  const std::vector<std::vector<float>> groups = {
      {largest, -largest},         {-largest, largest / 3, 1.0f}, {smallest},
      {smallest * 100, -smallest}, {0x1p-126f, 0x1p-125f},        {1e-36f, -1e-37f}};
  for (const auto& values : groups) {
    for (const ScaleRule rule : {ScaleRule::kAmax, ScaleRule::kSearch}) {
      const Quantised result = quantise(values, rule);
      EXPECT_TRUE(std::isfinite(result.scale));
      EXPECT_GE(result.scale, 0x1p-126f);
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_LE(result.codes[i], 15);
        const double stored = (result.codes[i] - kInt4Zero) * double{result.scale};
        EXPECT_LE(std::fabs(values[i] - stored), 1.001 * double{result.scale}) << values[i];
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::quant
