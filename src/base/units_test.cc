#include "base/units.h"

#include <gtest/gtest.h>

namespace bulkhead::base {
namespace {

TEST(Units, BytesAreShownWithOneDigit) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(uint64_t{3} << 30), "3.0 GiB");
}

TEST(Units, CountsAreGrouped) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
}

TEST(Units, SizesAreReadWithEverySpelling) {
  for (const char* text : {"2G", "2g", "2GB", "2GiB", "2048M", "2147483648"}) {
    const Result<uint64_t> parsed = parse_bytes(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, uint64_t{2} << 30) << text;
  }
}

TEST(Units, NonsenseSizesAreRefused) {
  for (const char* text : {"", "G", "2X", "2GG", "-1", "99999999999999999999", "20000000T"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
}

}  // namespace
}  // namespace bulkhead::base
