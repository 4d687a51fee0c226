// The checking model must see what it is there to see.
#include "engine/testing/checking_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/testing/scripted_decoder.h"
#include "kv/page_pool.h"

namespace bulkhead::engine::testing {
namespace {

constexpr int32_t kVocabulary = 64;

struct Bench {
  CheckingDecoder decoder{small_facts(kVocabulary, 256), {}};
  std::unique_ptr<kv::PagePool> pool =
      std::move(kv::PagePool::create(small_layout(16), {.pages = 8, .poison_free = true})).value();
  std::vector<float> row = std::vector<float>(kVocabulary);

  void feed(std::span<const TokenId> tokens, int32_t position,
            const std::vector<kv::PageId>& pages) {
    const model::SequenceSlice slice{tokens, position, pages, model::LogitsFor::kLast};
    decoder.forward(std::span(&slice, 1), pool->view(), row);
  }
  bool as_expected(std::span<const TokenId> tokens) const {
    std::vector<float> expected(kVocabulary);
    CheckingDecoder::expected_logits(tokens, expected);
    return row == expected;
  }
};

std::vector<TokenId> numbers(int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(i % kVocabulary);
  return tokens;
}

TEST(CheckingDecoder, ChunksDoNotChangeTheAnswer) {
  const auto tokens = numbers(40);
  for (const size_t cut : {1u, 15u, 16u, 17u, 39u}) {
    Bench bench;
    bench.feed(std::span(tokens).first(cut), 0, {3, 1, 2});
    bench.feed(std::span(tokens).subspan(cut), static_cast<int32_t>(cut), {3, 1, 2});
    EXPECT_TRUE(bench.as_expected(tokens)) << cut;
    EXPECT_EQ(bench.decoder.faults(), 0u);
  }
}

TEST(CheckingDecoder, AWrongPageIsAWrongToken) {
  const auto tokens = numbers(33);
  Bench bench;
  bench.feed(std::span(tokens).first(32), 0, {3, 1, 2});
  bench.feed(std::span(tokens).subspan(32), 32, {3, 4, 2});  // page 4 was never written
  EXPECT_FALSE(bench.as_expected(tokens));
  EXPECT_GT(bench.decoder.faults(), 0u);
}

TEST(CheckingDecoder, PagesInTheWrongOrderAreAWrongToken) {
  const auto tokens = numbers(33);
  Bench bench;
  bench.feed(std::span(tokens).first(32), 0, {3, 1, 2});
  bench.feed(std::span(tokens).subspan(32), 32, {1, 3, 2});
  EXPECT_FALSE(bench.as_expected(tokens));
}

TEST(CheckingDecoder, AnotherSequencesBytesAreAWrongToken) {
  const auto tokens = numbers(20);
  Bench bench;
  bench.feed(std::span(tokens).first(19), 0, {0, 1});
  const auto foreign = std::vector<TokenId>(16, 5);
  bench.feed(foreign, 0, {0});  // the page was given to somebody else
  bench.feed(std::span(tokens).subspan(19), 19, {0, 1});
  EXPECT_FALSE(bench.as_expected(tokens));
  EXPECT_GT(bench.decoder.faults(), 0u);
}

TEST(CheckingDecoder, OneFlippedBitIsAWrongToken) {
  const auto tokens = numbers(20);
  Bench bench;
  bench.feed(std::span(tokens).first(19), 0, {0, 1});
  bench.pool->view().arena[8] ^= std::byte{1};  // the token kept in slot 0
  bench.feed(std::span(tokens).subspan(19), 19, {0, 1});
  EXPECT_FALSE(bench.as_expected(tokens));
}

TEST(CheckingDecoder, PoisonIsOneRowOfNan) {
  Bench bench;
  bench.decoder.poison_after(7);
  bench.feed(std::vector<TokenId>{1, 7}, 0, {0});
  EXPECT_TRUE(std::all_of(bench.row.begin(), bench.row.end(),
                          [](float value) { return std::isnan(value); }));
  bench.feed(std::vector<TokenId>{1, 8}, 0, {0});
  EXPECT_FALSE(std::isnan(bench.row[0]));
}

}  // namespace
}  // namespace bulkhead::engine::testing
