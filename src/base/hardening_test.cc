// The builds that run the sanitizers and the fuzzers also check every index of a container.
#include <gtest/gtest.h>

#include <span>
#include <string_view>
#include <vector>

namespace bulkhead::base {
namespace {

// C149
TEST(HardenedContainersDeathTest, AnElementThatWasReservedOnlyIsNotThere) {
#ifndef _GLIBCXX_ASSERTIONS
  GTEST_SKIP() << "NOT RUN: indexes are checked in the sanitizer builds";
#else
  std::vector<int> reserved;
  reserved.reserve(16);
  volatile size_t at = 3;  // so that no compiler sees the fault
  EXPECT_DEATH(reserved[at] = 1, "");
  const std::vector<int> three(3);
  EXPECT_DEATH(static_cast<void>(std::span(three)[at]), "");
  EXPECT_DEATH(static_cast<void>(std::string_view("abc")[at]), "");
#endif
}

}  // namespace
}  // namespace bulkhead::base
