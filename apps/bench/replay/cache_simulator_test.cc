#include "apps/bench/replay/cache_simulator.h"

#include <gtest/gtest.h>

#include <vector>

namespace bulkhead::apps {
namespace {

using Tokens = std::vector<int32_t>;

std::unique_ptr<CacheSimulator> cache_of(int64_t pages, bool keeps_answers = true) {
  return CacheSimulator::create({.pages = pages, .page_tokens = 16, .keeps_answers = keeps_answers})
      .value();
}

Tokens tokens_from(int32_t first, int32_t count) {
  Tokens tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

TEST(CacheSimulator, WholePagesAreFoundAgainButForTheLastToken) {
  const auto cache = cache_of(100);
  EXPECT_EQ(cache->run(tokens_from(0, 48), 1), 0);
  EXPECT_EQ(cache->run(tokens_from(0, 48), 1), 32) << "the last token is computed";
  EXPECT_EQ(cache->run(tokens_from(0, 49), 1), 48);
  EXPECT_EQ(cache->run(tokens_from(0, 31), 1), 16);
  EXPECT_EQ(cache->run(tokens_from(1, 48), 1), 0);
}

TEST(CacheSimulator, TheLongestUnusedGoesFirstAndFromItsEnd) {
  const auto cache = cache_of(8);
  EXPECT_EQ(cache->run(tokens_from(0, 48), 1), 0);     // 3 pages, with one for the answer
  EXPECT_EQ(cache->run(tokens_from(1000, 48), 1), 0);  // 3 more: 6 known
  EXPECT_EQ(cache->run(tokens_from(0, 49), 1), 48);    // and younger again
  EXPECT_EQ(cache->run(tokens_from(2000, 48), 1), 0);  // needs 4: two of the second's go
  EXPECT_EQ(cache->evicted_pages(), 2u);
  EXPECT_EQ(cache->run(tokens_from(1000, 33), 1), 16) << "its first page is left";
  EXPECT_EQ(cache->run(tokens_from(0, 49), 1), 32)
      << "of the others the oldest gave up a page for that";
}

TEST(CacheSimulator, AnswersFillPagesToo) {
  const auto kept = cache_of(8);
  kept->run(tokens_from(0, 16), 97);  // 112 of 113 tokens are written: 7 pages
  kept->run(tokens_from(1000, 31), 1);
  EXPECT_EQ(kept->evicted_pages(), 1u);
  const auto apart = cache_of(8, false);
  apart->run(tokens_from(0, 16), 97);
  apart->run(tokens_from(1000, 31), 1);
  EXPECT_EQ(apart->evicted_pages(), 0u) << "decode has a cache of its own";
}

TEST(CacheSimulator, EqualPromptsHaveEqualAnswersUnlessTheyAreDrawn) {
  const auto greedy = cache_of(16);
  for (int i = 0; i < 20; ++i) greedy->run(tokens_from(0, 17), 64);
  EXPECT_EQ(greedy->evicted_pages(), 0u);
  const auto drawn = cache_of(16);
  for (int i = 0; i < 20; ++i) drawn->run(tokens_from(0, 17), 64, true);
  EXPECT_GT(drawn->evicted_pages(), 0u);
}

TEST(CacheSimulator, ARequestThatDoesNotFitChangesNothing) {
  const auto cache = cache_of(4);
  EXPECT_EQ(cache->run(tokens_from(0, 48), 16), 0);
  EXPECT_FALSE(cache->run(tokens_from(500, 48), 17).has_value());
  EXPECT_FALSE(cache->run(tokens_from(500, 65), 1).has_value());
  EXPECT_FALSE(cache->run(tokens_from(500, 1), int64_t{1} << 40).has_value());
  EXPECT_EQ(cache->run(tokens_from(0, 48), 16), 32);
}

TEST(CacheSimulator, AFlushForgetsEverything) {
  const auto cache = cache_of(8);
  cache->run(tokens_from(0, 48), 1);
  cache->clear();
  EXPECT_EQ(cache->run(tokens_from(0, 48), 1), 0);
}

TEST(CacheSimulator, ShapesThatTheIndexCannotHaveAreRefused) {
  for (const CacheShape& shape :
       {CacheShape{.pages = 0, .page_tokens = 16}, CacheShape{.pages = -5, .page_tokens = 16},
        CacheShape{.pages = 5, .page_tokens = 0}, CacheShape{.pages = 5, .page_tokens = 1},
        CacheShape{.pages = 5, .page_tokens = 24}, CacheShape{.pages = 5, .page_tokens = -16},
        CacheShape{.pages = 5, .page_tokens = 1 << 20},
        CacheShape{.pages = int64_t{1} << 62, .page_tokens = 16}}) {
    const auto refused = CacheSimulator::create(shape);
    ASSERT_FALSE(refused.ok()) << shape.pages << " x " << shape.page_tokens;
    EXPECT_EQ(refused.error().code, base::ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace bulkhead::apps
