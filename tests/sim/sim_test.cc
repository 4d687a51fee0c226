// Fixed seeds of the simulator, and what shows that it can see what it looks for.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "base/testing/quick.h"
#include "sim/campaign.h"
#include "sim/explore.h"
#include "sim/oracle_decoder.h"

namespace bulkhead::sim {
namespace {

// Under sanitizers a quarter of them.
uint64_t seeds() { return base::testing::quick() ? 50 : 200; }
constexpr uint64_t kSteps = 1500;

// C037, C038, C040: the whole deployment in small, with every kind of fault.
TEST(Sim, FixedSeedsPass) {
  RunOptions options;
  options.steps = kSteps;
  RunStats totals;
  std::set<FaultKind> struck;
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    const SwarmConfig config = draw_config(seed);
    RunResult result = run_apart(config, options);
    for (const Fault& fault : result.faults) struck.insert(fault.id.kind);
    totals.add(result.stats);
    if (!result.failure) continue;
    std::ostringstream text;
    print_failure(text, config, options, minimise(config, options, std::move(result)));
    ADD_FAILURE() << text.str();
  }
  if (seeds() < 200) return;
  // It was not an idle exercise.
  EXPECT_EQ(struck.size(), kFaultKinds - 1) << "every kind whose detection is promised";
  EXPECT_GT(totals.noticed[static_cast<size_t>(Mechanism::kTag)], 100u);
  EXPECT_GT(totals.answered, 10'000u);
  EXPECT_GT(totals.cut, 1'000u);
  EXPECT_GT(totals.failed, 100u);
  EXPECT_GT(totals.lost, 0u);
  EXPECT_GT(totals.preemptions, 100u);
  EXPECT_GT(totals.cached_tokens, 1'000u);
  EXPECT_GT(totals.evicted_pages, 1'000u);
}

TEST(Sim, ASeedTakesTheSameCourseEveryTime) {
  RunOptions options;
  options.steps = kSteps;
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    const SwarmConfig config = draw_config(seed);
    const RunResult first = run_world(config, options);
    const RunResult second = run_world(config, options);
    EXPECT_EQ(first.digest, second.digest) << "seed " << seed;
    EXPECT_EQ(first.faults.size(), second.faults.size()) << "seed " << seed;
    EXPECT_NE(first.digest, 0u);
  }
}

// The matrix of docs/integrity.md, with few faults of each class.
TEST(Sim, EveryClassOfFaultIsNoticedOrDoesNoHarm) {
  std::ostringstream progress;
  const Matrix matrix = run_campaign({.seed = 7, .faults = 1}, progress);
  EXPECT_TRUE(matrix.passed()) << progress.str();
  EXPECT_EQ(matrix.false_alarms, 0u);
  EXPECT_EQ(matrix.rows.size(), kFaultKinds);
  uint64_t leaks = 0;
  for (const MatrixRow& row : matrix.rows) {
    EXPECT_EQ(row.struck, 1u) << to_string(row.kind);
    leaks += row.leaks_unwatched;
  }
  EXPECT_GT(leaks, 1u) << "what the check holds back would have got out";
}

// Of ten faults only the third and the eighth together do harm.
TEST(Sim, OnlyTheFaultsThatAFailureNeedsAreLeft) {
  const auto run_with = [](const std::set<FaultId>& only) {
    RunResult out;
    for (const FaultId& id : only) out.faults.push_back({id, {}, "somewhere"});
    const bool harm = only.contains({FaultKind::kDrop, 3}) && only.contains({FaultKind::kDrop, 8});
    if (harm) out.failure = "harm";
    return out;
  };
  std::set<FaultId> all;
  for (uint64_t number = 1; number <= 10; ++number) all.insert({FaultKind::kDrop, number});
  const RunResult least = minimise(run_with, run_with(all));
  ASSERT_TRUE(least.failure);
  ASSERT_EQ(least.faults.size(), 2u);
  EXPECT_EQ(least.faults[0].id.number, 3u);
  EXPECT_EQ(least.faults[1].id.number, 8u);
}

class OracleDecoderTest : public ::testing::Test {
 protected:
  OracleDecoderTest() : decoder_(2, {}) {
    const kv::PageLayout layout = sim_layout(2);
    arena_.assign(4 * layout.page_bytes(), std::byte{0xff});
    cache_ = {arena_.data(), layout, 4};
  }
  // The token that the model would choose after these, read through these pages.
  TokenId next(const std::vector<TokenId>& tokens, size_t written,
               const std::vector<kv::PageId>& pages) {
    std::vector<float> row(static_cast<size_t>(kVocabulary));
    const auto fresh = std::span(tokens).subspan(written);
    const model::SequenceSlice slice{fresh, static_cast<int32_t>(written), pages,
                                     model::LogitsFor::kLast};
    decoder_.forward(std::span(&slice, 1), cache_, row);
    return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  }
  static TokenId alone(const std::vector<TokenId>& tokens) {
    OracleRow row;
    for (const TokenId token : tokens) row.append(token);
    const auto logits = row.logits();
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  OracleDecoder decoder_;
  std::vector<std::byte> arena_;
  kv::CacheView cache_;
  const std::vector<TokenId> text_ = std::vector<TokenId>(20, 3);
};

TEST_F(OracleDecoderTest, AnswersAsAloneThroughItsOwnPages) {
  EXPECT_EQ(next(text_, 0, {2, 0}), alone(text_));
  std::vector<TokenId> longer = text_;
  longer.push_back(7);
  EXPECT_EQ(next(longer, 20, {2, 0}), alone(longer));
  EXPECT_EQ(decoder_.wrong_reads(), 0u);
}

TEST_F(OracleDecoderTest, SeesEveryForeignPageAndEveryBit) {
  std::vector<TokenId> longer = text_;
  longer.push_back(7);
  ASSERT_EQ(next(text_, 0, {2, 0}), alone(text_));
  const std::vector<std::vector<kv::PageId>> wrong = {{3, 0}, {2, 2}, {0, 2}, {-1, 0}, {2, 9}, {2}};
  for (const auto& pages : wrong) {
    const auto before = arena_;
    EXPECT_EQ(next(longer, 20, pages), kWrongRead);
    arena_ = before;
  }
  const size_t page_bytes = cache_.layout.page_bytes();
  for (size_t bit = 0; bit < 8 * page_bytes; bit += 7) {
    std::byte& byte = arena_[2 * page_bytes + bit / 8];
    byte ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(next(longer, 20, {2, 0}), kWrongRead) << bit;
    byte ^= std::byte{1} << (bit % 8);
  }
  EXPECT_EQ(next(longer, 20, {2, 0}), alone(longer));
}

}  // namespace
}  // namespace bulkhead::sim
