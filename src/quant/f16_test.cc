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

}  // namespace
}  // namespace bulkhead::quant
