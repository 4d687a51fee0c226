#include "api/answer/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace bulkhead::api {
namespace {

struct Outcome {
  std::string text;
  std::string match;
  bool operator==(const Outcome&) const = default;
};

// The definition: the match that ends first, the longest of those that end there.
Outcome reference(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      if (stop.size() > best.size() && std::string_view(text).substr(0, end).ends_with(stop)) {
        best = stop;
      }
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, {}};
}

Outcome run(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  StopMatcher matcher(stops);
  std::string out;
  for (const std::string& piece : pieces) out += matcher.push(piece);
  if (matcher.match() != nullptr) {
    const std::string found = *matcher.match();
    EXPECT_EQ(matcher.push("more"), "") << "after a match nothing comes out";
    return {out, found};
  }
  return {out + matcher.flush(), {}};
}

// Every way to cut a text of up to about twelve bytes.
void expect_all_splits(const std::string& text, const std::vector<std::string>& stops) {
  const Outcome expected = reference(text, stops);
  for (uint32_t cuts = 0; cuts < (1u << (text.size() - 1)); ++cuts) {
    std::vector<std::string> pieces(1);
    for (size_t i = 0; i < text.size(); ++i) {
      pieces.back() += text[i];
      if ((cuts >> i & 1u) != 0) pieces.emplace_back();
    }
    ASSERT_EQ(run(pieces, stops), expected) << text << " cut by " << cuts;
  }
}

// C158
TEST(StopMatcher, TextBeforeTheEarliestMatchIsTheSameUnderEverySplit) {
  expect_all_splits("xxabcxx", {"ab", "abc", "b"});
  expect_all_splits("xaabaabx", {"aabx"});
  expect_all_splits("abababac", {"abac"});
  expect_all_splits("beta gamma", {"beta gamma", "gamma"});
  expect_all_splits("no match", {"zz", "matchx"});
  expect_all_splits("abcd", {"abcd", "bc"});
  expect_all_splits("aaaaaa", {"aaab", "aaaa"});
}

TEST(StopMatcher, RandomTextsOverASmallAlphabetAgreeWithTheDefinition) {
  base::Rng rng(7);
  const auto word = [&rng](uint64_t length) {
    std::string out;
    for (uint64_t i = 0; i < length; ++i) out += static_cast<char>('a' + rng.below(3));
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (uint64_t i = 0; i <= rng.below(4); ++i) stops.push_back(word(1 + rng.below(5)));
    const std::string text = word(1 + rng.below(40));
    std::vector<std::string> pieces(1);
    for (const char c : text) {
      pieces.back() += c;
      if (rng.below(2) == 0) pieces.emplace_back();
    }
    ASSERT_EQ(run(pieces, stops), reference(text, stops)) << text;
  }
}

// C158
TEST(StopMatcher, HoldsBackExactlyTheLongestPossibleStopPrefix) {
  StopMatcher matcher({"</end>", "/e!"});
  EXPECT_EQ(matcher.push("a<"), "a");
  EXPECT_EQ(matcher.push("/e"), "");
  EXPECT_EQ(matcher.push("x"), "</ex");
  EXPECT_EQ(matcher.push("y/e"), "y");
  EXPECT_EQ(matcher.flush(), "/e");
}

TEST(StopMatcher, WithoutStopStringsEverythingPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("anything"), "anything");
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_EQ(matcher.match(), nullptr);
}

TEST(StopMatcher, CutsBetweenCharactersOnly) {
  // U+00E9 and U+00E8 share their first byte; the held-back part must not split one.
  StopMatcher matcher({"\xC3\xA9"});
  EXPECT_EQ(matcher.push("x\xC3\xA8"), "x\xC3\xA8");
  EXPECT_EQ(matcher.push("y\xC3\xA9z"), "y");
  EXPECT_EQ(*matcher.match(), "\xC3\xA9");
}

TEST(StopMatcher, TimeIsLinearOnTextMadeOfStopPrefixes) {
  std::string stop(1000, 'a');
  stop += 'b';
  StopMatcher matcher({stop});
  std::string out;
  for (int i = 0; i < 200; ++i) out += matcher.push(std::string(1000, 'a'));
  out += matcher.flush();
  EXPECT_EQ(out.size(), 200u * 1000u);
}

}  // namespace
}  // namespace bulkhead::api
