#include "engine/executor.h"

#include <gtest/gtest.h>

#include "engine/testing/scripted_decoder.h"
#include "kv/page_pool.h"

namespace bulkhead::engine {
namespace {

using model::LogitsFor;
using model::SequenceSlice;

constexpr model::StepLimits kLimits{.rows_max = 8, .logits_rows_max = 3, .slices_max = 4};
const std::vector<model::TokenId> kTokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
const std::vector<kv::PageId> kPages{0};

SequenceSlice slice(size_t tokens, LogitsFor logits) {
  return {std::span(kTokens).first(tokens), 0, kPages, logits};
}

TEST(StepPlan, CountsRowsAndLogitsRows) {
  StepPlan plan(kLimits);
  EXPECT_TRUE(plan.empty());
  plan.add(slice(4, LogitsFor::kNone));
  plan.add(slice(2, LogitsFor::kLast));
  plan.add(slice(2, LogitsFor::kAll));
  EXPECT_EQ(plan.rows(), 8);
  EXPECT_EQ(plan.logits_rows(), 3);
  EXPECT_FALSE(plan.full());
  plan.clear();
  for (int i = 0; i < 4; ++i) plan.add(slice(1, LogitsFor::kNone));
  EXPECT_TRUE(plan.full());
}

using StepPlanDeathTest = ::testing::Test;

TEST(StepPlanDeathTest, RefusesMoreThanTheModelCanTake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  StepPlan plan(kLimits);
  EXPECT_DEATH(plan.add(slice(9, LogitsFor::kNone)), "rows within the limit");
  EXPECT_DEATH(plan.add(slice(4, LogitsFor::kAll)), "logits rows within the limit");
}

TEST(Executor, KeepsOneRowOfLogitsPerSliceThatAskedForOne) {
  using testing::ScriptedDecoder;
  ScriptedDecoder decoder(testing::small_facts(20, 64), kLimits,
                          [](std::span<const model::TokenId> prompt, auto) {
                            return static_cast<model::TokenId>(prompt.size());
                          });
  auto pool = std::move(kv::PagePool::create(testing::small_layout(16), {.pages = 4})).value();
  auto executor = std::move(Executor::create(decoder, pool->view())).value();
  const std::vector<kv::PageId> other{1};
  const std::vector<kv::PageId> third{2};
  StepPlan plan(kLimits);
  plan.add(slice(3, LogitsFor::kLast));
  plan.add({std::span(kTokens).first(1), 0, other, LogitsFor::kNone});
  plan.add({std::span(kTokens).first(2), 0, third, LogitsFor::kLast});
  executor->run(plan);
  EXPECT_GT(executor->logits(0)[3], 0.0f);
  EXPECT_GT(executor->logits(1)[2], 0.0f);
  EXPECT_EQ(executor->logits(1).size(), 20u);
}

}  // namespace
}  // namespace bulkhead::engine
