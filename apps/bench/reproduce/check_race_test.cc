#include "apps/bench/reproduce/check_race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace bulkhead::apps::reproduce {
namespace {

constexpr int32_t kSequences = 5;
constexpr int32_t kPageTokens = 16;
constexpr int32_t kContext = 32;
constexpr std::array kAll = {Check::kNone, Check::kTwin,    Check::kTriplet,
                             Check::kOff,  Check::kObserve, Check::kAbort};

// Its next token follows from the last one and its place.
class CountingDecoder final : public model::Decoder {
 public:
  CountingDecoder() {
    facts_.vocabulary_size = 50;
    facts_.cache.page_tokens = kPageTokens;
    facts_.cache.layers = facts_.cache.kv_heads = 1;
    facts_.cache.head_dim = 16;
  }
  const model::ModelFacts& facts() const override { return facts_; }
  const model::StepLimits& limits() const override { return limits_; }
  void forward(std::span<const model::SequenceSlice> slices, const kv::CacheView&,
               std::span<float> logits) override {
    std::fill(logits.begin(), logits.end(), 0.0f);
    size_t row = 0;
    for (const model::SequenceSlice& slice : slices) {
      if (slice.logits == model::LogitsFor::kNone) continue;
      const int32_t next = (slice.tokens.back() * 7 + slice.position) % facts_.vocabulary_size;
      logits[row++ * static_cast<size_t>(facts_.vocabulary_size) + static_cast<size_t>(next)] = 1;
    }
  }

 private:
  model::ModelFacts facts_;
  model::StepLimits limits_ = {.rows_max = 16, .logits_rows_max = 8, .slices_max = 8};
};

CheckRace race_of(model::Decoder& decoder) {
  auto cache =
      bench::FilledCache::create(decoder, decoder.facts().cache, kSequences, kContext).value();
  return CheckRace::make(decoder, std::move(cache), kAll).value();
}

TEST(CheckRace, AllComputeTheSameTokens) {
  CountingDecoder decoder;
  CheckRace race = race_of(decoder);
  race.run(0.0, 11);
  for (size_t i = 0; i < kSequences; ++i) {
    const auto& expected = race.sequences(Check::kNone)[i].state.tokens;
    EXPECT_GT(std::set(expected.end() - 11, expected.end()).size(), 1u) << "tokens that differ";
    for (const Check check : kAll) {
      EXPECT_EQ(race.sequences(check)[i].state.tokens, expected) << i;
    }
  }
}

TEST(CheckRace, WhoComparesDoesSoTwiceAStepWithEveryPage) {
  CountingDecoder decoder;
  CheckRace race = race_of(decoder);
  race.run(0.0, 20);
  for (const Check check : {Check::kObserve, Check::kAbort}) {
    const kv::integrity::Report report = race.pool(check).integrity().report();
    EXPECT_EQ(report.checks, 2u * 21u) << "one step before the rounds";
    EXPECT_EQ(report.pages_checked, report.checks * kSequences * race.pages_of_one());
    EXPECT_TRUE(report.events.empty());
  }
  for (const Check check : {Check::kNone, Check::kTwin, Check::kTriplet, Check::kOff}) {
    EXPECT_EQ(race.pool(check).integrity().report().checks, 0u);
  }
}

TEST(CheckRace, EachRoundIsOneTimeOfEverybody) {
  CountingDecoder decoder;
  CheckRace race = race_of(decoder);
  race.run(0.0, 7);
  for (const Check check : kAll) {
    ASSERT_EQ(race.times(check).size(), 7u);
    for (const StepTime& time : race.times(check)) EXPECT_LE(time.guard, time.seconds);
  }
}

TEST(CheckRace, SequencesFillTheirPagesInDifferentStepsAndBeginAgain) {
  CountingDecoder decoder;
  CheckRace race = race_of(decoder);
  race.run(0.0, 3);
  std::set<int32_t> places;
  for (const engine::Sequence& one : race.sequences(Check::kAbort)) {
    places.insert(one.state.written % kPageTokens);
  }
  EXPECT_EQ(places.size(), size_t{kSequences});
  race.run(0.0, kPageTokens - 3);
  for (const engine::Sequence& one : race.sequences(Check::kAbort)) {
    EXPECT_EQ(one.state.written, one.state.prompt_tokens);
    EXPECT_EQ(one.state.unwritten().size(), 1u);
  }
  race.run(0.0, 5 * kPageTokens);
}

TEST(CheckRace, ATokenThatFillsAPageStampsItWhereThereIsATracker) {
  CountingDecoder decoder;
  CheckRace race = race_of(decoder);
  race.run(0.0, kPageTokens);
  // The last page of the first sequence, which began at its first slot.
  const kv::PageId page = race.sequences(Check::kAbort)[0].pages.pages().back();
  EXPECT_TRUE(race.pool(Check::kAbort).integrity().stamp(page).has_value());
  EXPECT_FALSE(race.pool(Check::kOff).integrity().stamp(page).has_value());
}

}  // namespace
}  // namespace bulkhead::apps::reproduce
