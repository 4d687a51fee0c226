#include "apps/bench/bounded_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace bulkhead::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  BoundedLines lines(in, "f", 8);
  std::vector<std::string> found;
  std::string_view line;
  while (lines.next(line).value()) found.emplace_back(line);
  EXPECT_EQ(lines.number(), found.size());
  return found;
}

TEST(BoundedLines, EveryLineComesWithoutItsEnd) {
  EXPECT_THAT(lines_of(""), IsEmpty());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  EXPECT_THAT(lines_of("a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of("a\r\n\r\nb\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines_of(std::string("a\0b\n", 4)), ElementsAre(std::string("a\0b", 3)));
}

TEST(BoundedLines, ALineMayBeAsLongAsTheBoundAndNoLonger) {
  EXPECT_THAT(lines_of("12345678\n12345678"), ElementsAre("12345678", "12345678"));
  for (const char* text :
       {"a\n123456789\n", "a\n123456789", "a\n12345678901234\n", "a\n12345678901234"}) {
    std::istringstream in(text);
    BoundedLines lines(in, "f", 8);
    std::string_view line;
    EXPECT_TRUE(lines.next(line).value());
    const base::Result<bool> refused = lines.next(line);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("f line 2: is longer than 8 bytes"));
  }
}

}  // namespace
}  // namespace bulkhead::apps
