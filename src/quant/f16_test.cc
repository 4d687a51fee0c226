#include "quant/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bulkhead::quant {
namespace {

// The value of a code by the definition of binary16, in double.
double by_definition(F16 bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryCodeWidensToItsExactValue) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const double expected = by_definition(static_cast<F16>(code));
    const float value = f16_to_float(static_cast<F16>(code));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << code;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << code;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << code;
    }
  }
}

TEST(F16, NanKeepsItsSignAndPayloadAndIsQuiet) {
  EXPECT_EQ(std::bit_cast<uint32_t>(f16_to_float(0x7c01)), 0x7fc02000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(f16_to_float(0xfe00)), 0xffc00000u);
}

TEST(F16, EveryCodeSurvivesWideningAndRounding) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const float value = f16_to_float(static_cast<F16>(code));
    const uint32_t expected = std::isnan(value) ? code | 0x0200u : code;
    ASSERT_EQ(float_to_f16(value), expected) << code;
  }
}

TEST(F16, EveryMidpointRoundsToTheEvenNeighbour) {
  for (uint32_t code = 0; code < 0x7c00; ++code) {
    const double low = by_definition(static_cast<F16>(code));
    const double high = code == 0x7bff ? 65536.0 : by_definition(static_cast<F16>(code + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(float_to_f16(middle), code + code % 2) << code;
    ASSERT_EQ(float_to_f16(-middle), 0x8000 + code + code % 2) << code;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 0.0f)), code) << code;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 1e9f)), code + 1) << code;
  }
}

TEST(F16, WhatIsTooLargeBecomesInfinite) {
  EXPECT_EQ(float_to_f16(1e9f), 0x7c00);
  EXPECT_EQ(float_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(float_to_f16(1e-30f), 0x0000);
}

}  // namespace
}  // namespace bulkhead::quant
