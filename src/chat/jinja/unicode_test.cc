#include "chat/jinja/unicode.h"

#include <gtest/gtest.h>

namespace bulkhead::chat::jinja {
namespace {

std::string mapped(char32_t c, CaseMap map) {
  std::string out;
  append_mapped(out, c, map);
  return out;
}

TEST(Unicode, ClassesFollowPython) {
  EXPECT_TRUE(is_space(0x3000) && is_space(0x1F) && !is_space(0x200B));
  EXPECT_TRUE(is_decimal(U'٣') && is_digit(U'²') && !is_decimal(U'²') && is_numeric(U'½'));
  EXPECT_TRUE(is_title(0x1C5) && is_upper(0x1C4) && is_lower(0x1C6));
  EXPECT_TRUE(is_printable(U'é') && !is_printable(0x200B) && !is_printable(0x7F));
  EXPECT_TRUE(is_line_break(0x2028) && is_line_break(0x0B) && !is_line_break(0x1F));
  EXPECT_TRUE(is_alpha(U'語') && !is_alpha(U'1') && is_alnum(U'1'));
}

TEST(Unicode, CaseMappingsFollowPythonIncludingLongOnes) {
  EXPECT_EQ(mapped(U'ß', CaseMap::kUpper), "SS");
  EXPECT_EQ(mapped(U'ß', CaseMap::kTitle), "Ss");
  EXPECT_EQ(mapped(0x130, CaseMap::kLower), "i\u0307");
  EXPECT_EQ(mapped(0x1C6, CaseMap::kTitle), "\u01C5");
  EXPECT_EQ(mapped(U'ÿ', CaseMap::kUpper), "Ÿ");
  EXPECT_EQ(mapped(0x101, CaseMap::kUpper), "\u0100");
  EXPECT_EQ(mapped(0x100, CaseMap::kUpper), "\u0100");
  EXPECT_EQ(mapped(U'ſ', CaseMap::kFold), "s");
  EXPECT_EQ(mapped(U'語', CaseMap::kUpper), "語");
}

}  // namespace
}  // namespace bulkhead::chat::jinja
