#include "apps/number.h"

#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

TEST(Number, WhatIsInTheRangeIsTaken) {
  EXPECT_EQ(*parse_number("0.82", 0.01, 1.0), 0.82);
  EXPECT_EQ(*parse_number("1e-6", 1e-6, 1e12), 1e-6);
  EXPECT_EQ(*parse_number("1", 0.01, 1.0), 1.0);
}

TEST(Number, WhatIsNoNumberOrOutsideIsRefused) {
  for (const char* text : {"nan", "NaN", "-nan", "inf", "-inf", "1e999", "", " ", "2x", "0x1p3"}) {
    EXPECT_FALSE(parse_number(text, 0.0, 1e300).ok()) << text;
  }
  EXPECT_FALSE(parse_number("1.01", 0.01, 1.0).ok());
  EXPECT_EQ(parse_number("0", 0.01, 1.0).error().message, "0 is not in 0.01 to 1");
}

}  // namespace
}  // namespace bulkhead::apps
