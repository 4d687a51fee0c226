#include "apps/bench/replay/prompt_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

namespace bulkhead::apps {
namespace {

constexpr int64_t kBlock = 512;
constexpr TokenRange kRange = {.low = 300, .span = 1000};

PromptMaker maker(double length_scale = 8.0, uint64_t seed = 1) {
  return {seed, kRange, kBlock, length_scale};
}

// Whole blocks but for the last, which has `last` tokens.
TraceRow row_of(std::vector<int64_t> blocks, int64_t last = kBlock) {
  TraceRow row;
  row.input_tokens = (static_cast<int64_t>(blocks.size()) - 1) * kBlock + last;
  row.output_tokens = 80;
  row.blocks = std::move(blocks);
  return row;
}

size_t common(const PromptTokens& a, const PromptTokens& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

TEST(PromptMaker, LengthsAreDividedAndBlocksWithThem) {
  const PromptMaker eighth = maker();
  EXPECT_EQ(eighth.block_tokens(), 64);
  EXPECT_EQ(eighth.input_tokens(row_of({1, 2, 3}, 80)), 138);
  EXPECT_EQ(eighth.input_tokens(row_of({1}, 1)), 1) << "at least a token";
  EXPECT_EQ(eighth.output_tokens(row_of({1})), 10);
  EXPECT_EQ(maker(512).input_tokens(row_of({1, 2, 3}, 80)), 3);
  EXPECT_EQ(maker(512).output_tokens(row_of({1})), 1);
  // 512 / 100 is 5 whole tokens, and a last block is never longer.
  EXPECT_EQ(maker(100).input_tokens(row_of({1, 2}, 512)), 10);
  for (const double scale : {1.0, 3.0, 8.0, 100.0, 512.0}) {
    const TraceRow row = row_of({5, 6, 7}, 300);
    EXPECT_EQ(static_cast<int64_t>(maker(scale).prompt(row).size()),
              maker(scale).input_tokens(row));
  }
}

TEST(PromptMaker, ChainsThatBeginAlikeHavePromptsThatDo) {
  const PromptMaker made = maker();
  const PromptTokens one = made.prompt(row_of({7, 8, 9}));
  EXPECT_EQ(one, made.prompt(row_of({7, 8, 9})));
  EXPECT_EQ(common(one, made.prompt(row_of({7, 8, 10}))), 128u);
  EXPECT_EQ(common(one, made.prompt(row_of({7, 8}))), 128u);
  EXPECT_EQ(common(one, made.prompt(row_of({7, 8, 9, 4}, 100))), 192u);
  EXPECT_EQ(common(one, made.prompt(row_of({6, 8, 9}))), 0u);
  EXPECT_EQ(common(one, made.prompt(row_of({7, 8, 9}, 256))), 160u)
      << "half a block is the beginning of the whole one";
}

TEST(PromptMaker, TheSeedDecidesAndTokensStayInTheirRange) {
  const PromptTokens one = maker(8, 1).prompt(row_of({7, 8, 9}));
  EXPECT_NE(one, maker(8, 2).prompt(row_of({7, 8, 9})));
  for (const int32_t token : one) {
    EXPECT_GE(token, 300);
    EXPECT_LT(token, 1300);
  }
  EXPECT_GT(std::set<int32_t>(one.begin(), one.end()).size(), 100u) << "192 draws out of 1000";
}

TEST(PromptMaker, NoTwoBlocksAreAlikeWhereTheirTokensCanTellThemApart) {
  const PromptMaker made(1, {.low = 0, .span = 10}, kBlock, kBlock / 3.0);
  ASSERT_EQ(made.block_tokens(), 3);
  std::set<PromptTokens> blocks;
  for (int64_t name = 0; name < 1000; ++name) blocks.insert(made.prompt(row_of({name})));
  EXPECT_EQ(blocks.size(), 1000u) << "10^3 names in 3 tokens of 10";
}

TEST(PromptMaker, NamesOfAnySizeAndTheSmallestVocabularyMakePrompts) {
  const int64_t largest = std::numeric_limits<int64_t>::max();
  for (const uint32_t span : {1u, 2u, 768u, 1u << 24}) {
    const PromptMaker made(1, {.low = 5, .span = span}, kBlock, 4.0);
    EXPECT_EQ(made.prompt(row_of({largest, largest - 1})).size(), 256u);
  }
}

TEST(PromptMaker, RowsWithoutBlocksShareNothing) {
  const PromptMaker made(1, kRange, 0, 10.0);
  EXPECT_EQ(made.block_tokens(), 0);
  TraceRow row;
  row.line = 2;
  row.input_tokens = 374;
  TraceRow next = row;
  next.line = 3;
  const PromptTokens one = made.prompt(row);
  EXPECT_EQ(one.size(), 37u);
  EXPECT_EQ(one, made.prompt(row));
  EXPECT_LT(common(one, made.prompt(next)), 4u);
  EXPECT_LT(common(one, made.warmup(2, 37)), 4u);
  row.input_tokens = 0;
  EXPECT_EQ(made.prompt(row).size(), 1u);
}

}  // namespace
}  // namespace bulkhead::apps
