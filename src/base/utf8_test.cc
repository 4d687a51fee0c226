#include "base/utf8.h"

#include <gtest/gtest.h>

namespace bulkhead::base {
namespace {

TEST(Utf8, EveryScalarValueSurvivesARoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; c += (c < 0x3000 ? 1 : 7)) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char decoded = decode_utf8(text);
    ASSERT_TRUE(decoded.valid);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
  }
}

TEST(Utf8, OverlongSurrogateAndOutOfRangeFormsAreInvalid) {
  for (const char* bad : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",
                          "\xFF", "\xF8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(is_valid_utf8(bad)) << bad;
  }
}

TEST(Utf8, ReplacementFollowsMaximalPrefixes) {
  // The pattern of the Unicode standard's example (U+FFFD substitution of maximal subparts).
  EXPECT_EQ(to_valid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(Utf8, CompletePrefixHoldsBackOnlyWhatCanStillBecomeACharacter) {
  EXPECT_EQ(complete_utf8_prefix("ab"), 2u);
  EXPECT_EQ(complete_utf8_prefix("ab\xE2\x82"), 2u);
  EXPECT_EQ(complete_utf8_prefix("ab\xE2\x82\xAC"), 5u);
  EXPECT_EQ(complete_utf8_prefix("\xF0\x9F\x98"), 0u);
  EXPECT_EQ(complete_utf8_prefix("a\xFF"), 2u);     // can never be completed
  EXPECT_EQ(complete_utf8_prefix("\xE0\x80"), 2u);  // overlong: broken already
  EXPECT_EQ(complete_utf8_prefix(""), 0u);
}

}  // namespace
}  // namespace bulkhead::base
