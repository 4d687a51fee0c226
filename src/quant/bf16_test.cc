#include "quant/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace bulkhead::quant {
namespace {

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Bf16, EveryCodeSurvivesWideningAndRounding) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const float value = bf16_to_float(static_cast<Bf16>(code));
    const Bf16 back = float_to_bf16(value);
    if (std::isnan(value)) {
      ASSERT_EQ(back, code | 0x0040u) << code;
      ASSERT_TRUE(std::isnan(bf16_to_float(back)));
    } else {
      ASSERT_EQ(back, code);
    }
  }
}

// Every code against every kind of remainder: the nearest of the two neighbours, ties to even.
TEST(Bf16, EveryRemainderRoundsToNearestEven) {
  const uint32_t remainders[] = {0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    if ((code & 0x7f80u) == 0x7f80u) continue;
    for (const uint32_t remainder : remainders) {
      const bool up = remainder > 0x8000u || (remainder == 0x8000u && (code & 1u) != 0);
      ASSERT_EQ(float_to_bf16(from_bits((code << 16) | remainder)), code + (up ? 1u : 0u))
          << code << " " << remainder;
    }
  }
}

TEST(Bf16, TheLargestFloatsRoundToInfinity) {
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::max()), 0xff80);
  EXPECT_EQ(float_to_bf16(from_bits(0x7f7f7fffu)), 0x7f7f);
}

TEST(Bf16, NanStaysNanWhateverItsPayload) {
  for (const uint32_t payload : {1u, 0x8000u, 0xffffu, 0x10000u, 0x3fffffu, 0x7fffffu}) {
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(from_bits(0x7f800000u | payload)))));
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(from_bits(0xff800000u | payload)))));
  }
}

TEST(Bf16, RelativeErrorIsAtMostTwoToTheMinusEightOnNormalNumbers) {
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < 200000; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const float value = from_bits(static_cast<uint32_t>(state));
    if (!std::isnormal(value) || std::fabs(value) > 3.38e38f) continue;
    const double error = std::fabs(static_cast<double>(bf16_to_float(float_to_bf16(value))) -
                                   static_cast<double>(value));
    ASSERT_LE(error, std::ldexp(std::fabs(static_cast<double>(value)), -8)) << value;
  }
}

}  // namespace
}  // namespace bulkhead::quant
