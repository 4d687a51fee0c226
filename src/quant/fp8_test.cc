#include "quant/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bulkhead::quant {
namespace {

// The value of a code by the definition of e4m3fn, in double.
double by_definition(Fp8 code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, -9);
  return sign * std::ldexp(8 + mantissa, exponent - 10);
}

bool is_nan_code(Fp8 code) { return (code & 0x7fu) == 0x7fu; }

TEST(Fp8, EveryCodeDecodesToItsExactValueAndEncodesBack) {
  for (uint32_t i = 0; i < 256; ++i) {
    const auto code = static_cast<Fp8>(i);
    const float value = e4m3_to_float(code);
    if (is_nan_code(code)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), by_definition(code)) << i;
    EXPECT_EQ(std::signbit(value), code >= 0x80) << i;
    EXPECT_EQ(float_to_e4m3(value), code) << i;
  }
}

// What PyTorch 2.15 gives.
TEST(Fp8, EncodingAgreesWithTheReferenceAtEveryKindOfEdge) {
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    float value;
    Fp8 code;
  } cases[] = {{448.0f, 0x7e},   {449.0f, 0x7e},         {464.0f, 0x7e},     {464.0001f, 0x7e},
               {480.0f, 0x7e},   {infinity, 0x7e},       {-infinity, 0xfe},  {0x1p-9f, 0x01},
               {0x1p-10f, 0x00}, {0.00097656256f, 0x01}, {0.0146484375f, 8}, {0.015625f, 0x08},
               {1.0625f, 0x38},  {1.1875f, 0x3a},        {17.0f, 0x58},      {19.0f, 0x5a},
               {0.3f, 0x2a},     {-0.0f, 0x80},          {0.0f, 0x00},       {-0x1p-10f, 0x80},
               {-1.0625f, 0xb8}};
  for (const auto& [value, code] : cases) EXPECT_EQ(float_to_e4m3(value), code) << value;
  EXPECT_EQ(float_to_e4m3(std::numeric_limits<float>::quiet_NaN()), 0x7f);
  EXPECT_EQ(float_to_e4m3(-std::numeric_limits<float>::quiet_NaN()), 0xff);
}

// Between two neighbours the halfway point goes to the even code, anything else to the nearer.
TEST(Fp8, EveryMidpointRoundsToTheEvenNeighbour) {
  for (uint32_t i = 0; i < 0x7e; ++i) {
    const auto low = static_cast<Fp8>(i);
    const auto high = static_cast<Fp8>(i + 1);
    const auto middle = static_cast<float>((by_definition(low) + by_definition(high)) / 2);
    EXPECT_EQ(float_to_e4m3(middle), i % 2 == 0 ? low : high) << i;
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0f)), low) << i;
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1e9f)), high) << i;
    EXPECT_EQ(float_to_e4m3(-middle), 0x80 | (i % 2 == 0 ? low : high)) << i;
  }
}

TEST(Fp8, APowerOfTwoScaleIsExactFromEndToEnd) {
  for (uint32_t i = 0; i < 255; ++i) {
    EXPECT_EQ(static_cast<double>(e8m0_to_float(static_cast<uint8_t>(i))),
              std::ldexp(1.0, static_cast<int>(i) - 127))
        << i;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

}  // namespace
}  // namespace bulkhead::quant
