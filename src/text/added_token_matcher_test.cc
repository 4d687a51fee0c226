#include "text/added_token_matcher.h"

#include <gtest/gtest.h>

namespace bulkhead::text {
namespace {

AddedToken token(TokenId id, std::string content) {
  AddedToken out;
  out.id = id;
  out.content = std::move(content);
  return out;
}

AddedTokenMatcher matcher_of(const std::vector<AddedToken>& tokens) {
  AddedTokenMatcher out;
  for (const AddedToken& added : tokens) out.add(added.content, added);
  return out;
}

using Found = std::vector<std::tuple<size_t, size_t, TokenId>>;

Found find(const AddedTokenMatcher& matcher, std::string_view text) {
  std::vector<AddedMatch> matches;
  matcher.find_all(text, matches);
  Found out;
  for (const AddedMatch& match : matches) out.emplace_back(match.begin, match.end, match.id);
  return out;
}

TEST(AddedTokenMatcher, TakesTheLeftmostThenTheLongest) {
  const auto matcher = matcher_of({token(1, "ab"), token(2, "abcd"), token(3, "bcde")});
  EXPECT_EQ(find(matcher, "xabcde"), (Found{{1, 5, 2}}));
  EXPECT_EQ(find(matcher, "abcab"), (Found{{0, 2, 1}, {3, 5, 1}}));
  EXPECT_EQ(find(matcher, "bcde"), (Found{{0, 4, 3}}));
  EXPECT_EQ(find(matcher, "abc"), (Found{{0, 2, 1}}));
  EXPECT_EQ(find(matcher, ""), Found{});
}

TEST(AddedTokenMatcher, OfEqualContentsTheFirstCounts) {
  EXPECT_EQ(find(matcher_of({token(1, "ab"), token(2, "ab")}), "ab"), (Found{{0, 2, 1}}));
}

TEST(AddedTokenMatcher, StripsWhiteSpaceOnTheSidesAskedFor) {
  AddedToken left = token(1, "L");
  left.lstrip = true;
  AddedToken right = token(2, "R");
  right.rstrip = true;
  const auto matcher = matcher_of({left, right});
  EXPECT_EQ(find(matcher, "a \u3000L b"), (Found{{1, 6, 1}}));
  EXPECT_EQ(find(matcher, "aR \u3000b"), (Found{{1, 6, 2}}));
  EXPECT_EQ(find(matcher, "R  L"), (Found{{0, 3, 2}, {3, 4, 1}}));
  EXPECT_EQ(find(matcher, "  L"), (Found{{0, 3, 1}}));
}

TEST(AddedTokenMatcher, ASingleWordTokenTouchesNoWord) {
  AddedToken word = token(1, "cat");
  word.single_word = true;
  const auto matcher = matcher_of({word});
  EXPECT_EQ(find(matcher, "cat, cat_ concat \u00e9cat cat\u0301 cat"),
            (Found{{0, 3, 1}, {29, 32, 1}}));
  EXPECT_EQ(find(matcher,
                 "\xFF"
                 "cat\xE2"),
            (Found{{1, 4, 1}}));
}

}  // namespace
}  // namespace bulkhead::text
