// The split placement through the whole engine: who is admitted, what crosses the link, and what is
// left when a request ends on its way.
#include <gtest/gtest.h>

#include "engine/testing/checking_decoder.h"
#include "engine/testing/scripted_decoder.h"
#include "support/engine_stack.h"

namespace bulkhead {
namespace {

using engine::testing::CheckingDecoder;
using engine::testing::small_facts;
using testing::EngineStack;
using testing::StackOptions;
using wire::FinishReason;
using Tokens = std::vector<wire::TokenId>;

constexpr int32_t kVocabulary = 97;
constexpr int32_t kPageTokens = 16;
constexpr model::StepLimits kLimits{.rows_max = 512, .logits_rows_max = 64, .slices_max = 64};

Tokens prompt_of(int32_t tokens, int32_t first) {
  Tokens prompt(static_cast<size_t>(tokens), 3);
  prompt[0] = first;
  return prompt;
}

Tokens expected(const Tokens& prompt, int32_t tokens) {
  return CheckingDecoder::expected_answer(prompt, tokens, kVocabulary);
}

// Decode's pool holds exactly four such requests; each answers kAnswer tokens.
constexpr int32_t kPrompt = 40;
constexpr int32_t kAnswer = 24;
constexpr int32_t kPagesEach = (kPrompt + kAnswer) / kPageTokens;

TEST(Split, AsManyRunAsDecodeHoldsTheNextOneQueuesAndNobodyFails) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 4 * kPagesEach, .prefill_pages = 40, .running_max = 16});
  std::vector<EngineStack::Running> all;
  for (int32_t i = 0; i < 5; ++i) all.push_back(stack.submit(prompt_of(kPrompt, i), kAnswer));
  stack.step();
  const wire::GeneratorStatus status = stack.router().status();
  EXPECT_EQ(status.waiting, 1u);
  EXPECT_EQ(status.pages.free, 0) << "decode's pages are promised, and nothing else is short";
  EXPECT_LT(status.running, 16u);
  uint32_t most = 0;
  while (all[4].sink->tokens().empty()) {
    ASSERT_NE(stack.step(), wire::StepOutcome::kIdle);
    most = std::max(most, stack.router().status().running);
    ASSERT_TRUE(stack.violations().empty());
  }
  EXPECT_EQ(most, 4u);
  EXPECT_EQ(all[0].sink->finishes(), 1) << "the fifth began when the first had ended";
  ASSERT_TRUE(stack.run_until_idle());
  for (int32_t i = 0; i < 5; ++i) {
    const auto& one = all[static_cast<size_t>(i)];
    EXPECT_EQ(one.sink->finish()->reason, FinishReason::kLength);
    EXPECT_EQ(one.sink->finish()->preemptions, 0);
    EXPECT_EQ(one.sink->tokens(), expected(prompt_of(kPrompt, i), kAnswer));
  }
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

TEST(Split, WhoWaitsForPrefillGivesDecodesPagesBackMeanwhile) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64, .prefill_pages = 4, .chunk_tokens = 16});
  const auto first = stack.submit(prompt_of(60, 1), 4);
  const auto second = stack.submit(prompt_of(60, 2), 4);
  stack.step();
  EXPECT_EQ(stack.router().status().waiting, 1u);
  EXPECT_EQ(stack.pages().counts().available, 60) << "the promise of one request";
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(first.sink->tokens(), expected(prompt_of(60, 1), 4));
  EXPECT_EQ(second.sink->tokens(), expected(prompt_of(60, 2), 4));
  stack.expect_idle();
}

// C073, C095
TEST(Split, WhatCanNeverFitIsRefusedByThePoolItDoesNotFit) {
  CheckingDecoder decoder(small_facts(kVocabulary, 4096), kLimits);
  EngineStack stack(decoder, {.pages = 8, .prefill_pages = 4});
  const auto long_prompt = stack.submit(prompt_of(65, 1), 1);
  ASSERT_FALSE(long_prompt.status.ok());
  EXPECT_EQ(long_prompt.status.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_NE(long_prompt.status.error().message.find("prefill pool of 64"), std::string::npos);
  const auto long_answer = stack.submit(prompt_of(60, 1), 69);
  ASSERT_FALSE(long_answer.status.ok());
  EXPECT_NE(long_answer.status.error().message.find("decode pool of 128"), std::string::npos);
  const auto largest = stack.submit(prompt_of(64, 1), 64);
  ASSERT_TRUE(largest.status.ok());
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(largest.sink->tokens(), expected(prompt_of(64, 1), 64));
  stack.expect_idle();
}

TEST(Split, ARequestForOneTokenNeedsNoPageOfDecode) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 4, .prefill_pages = 16});
  const auto blocker = stack.submit(prompt_of(20, 1), 44);
  stack.step();
  EXPECT_EQ(stack.pages().counts().available, 0);
  const auto one = stack.submit(prompt_of(50, 2), 1);
  stack.step();
  EXPECT_EQ(one.sink->tokens(), expected(prompt_of(50, 2), 1));
  EXPECT_EQ(blocker.sink->finishes(), 0);
  ASSERT_TRUE(stack.run_until_idle());
  stack.expect_idle();
}

TEST(Split, APromptFoundInTheIndexGivesTheSameAnswerAndDecodeLeavesNothingThere) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 32, .prefill_pages = 32});
  const Tokens prompt = prompt_of(50, 1);
  const auto miss = stack.submit(prompt, 40);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(stack.index().size(), 3) << "whole pages of the prompt, none of the answer";
  const auto hit = stack.submit(prompt, 40);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(miss.sink->finish()->cached_tokens, 0);
  EXPECT_EQ(hit.sink->finish()->cached_tokens, 48);
  EXPECT_EQ(hit.sink->tokens(), miss.sink->tokens());
  EXPECT_EQ(hit.sink->tokens(), expected(prompt, 40));
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

TEST(Split, DecodeGoesOnWhileALongPromptCrossesTheLink) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder,
                    {.pages = 64, .prefill_pages = 32, .link_pages = 2, .chunk_tokens = 512});
  const auto talking = stack.submit({1, 2, 3}, 60);
  stack.step();
  stack.step();
  const Tokens prompt = prompt_of(400, 5);  // 25 pages: 13 steps
  const auto reading = stack.submit(prompt, 4);
  stack.step();
  EXPECT_EQ(reading.sink->tokens().size(), 1u);
  const size_t before = talking.sink->tokens().size();
  for (int step = 0; step < 12; ++step) stack.step();
  EXPECT_EQ(stack.converting().in_transit(), 1u);
  EXPECT_EQ(talking.sink->tokens().size(), before + 12);
  EXPECT_EQ(reading.sink->tokens().size(), 1u);
  stack.step();
  EXPECT_EQ(reading.sink->tokens().size(), 2u) << "it arrived whole and decoded at once";
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(reading.sink->tokens(), expected(prompt, 4));
  EXPECT_EQ(talking.sink->tokens(), expected({1, 2, 3}, 60));
  stack.expect_idle();
}

TEST(Split, AStepIsNotIdleWhileTheLinkHasWork) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64, .prefill_pages = 32, .link_pages = 1});
  const auto alone = stack.submit(prompt_of(300, 5), 2);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(alone.sink->tokens(), expected(prompt_of(300, 5), 2));
  stack.expect_idle();
}

// C040, C056
TEST(Split, PagesThatTheLinkStillReadsAreNotGivenUp) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder,
                    {.pages = 64, .prefill_pages = 8, .link_pages = 1, .chunk_tokens = 128});
  const auto crossing = stack.submit(prompt_of(100, 1), 8);  // seven pages, one in a step
  stack.step();
  const auto eager = stack.submit(prompt_of(100, 2), 8);
  stack.router().flush_cache();  // and the index keeps nothing
  for (int step = 0; step < 6; ++step) {
    stack.step();
    EXPECT_EQ(stack.router().status().waiting, 1u) << "the link holds the pages";
    ASSERT_TRUE(stack.violations().empty());
  }
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(crossing.sink->tokens(), expected(prompt_of(100, 1), 8));
  EXPECT_EQ(eager.sink->tokens(), expected(prompt_of(100, 2), 8));
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

// How a request can end before its time.
enum class End { kCancel, kDeadline, kDrain };

// Ends one of two requests after each number of steps, so that it is met in every state: queued,
// in prefill, not yet, half and wholly converted, decoding.
void end_after(int steps, End end) {
  SCOPED_TRACE(::testing::Message() << "after " << steps << " steps, " << static_cast<int>(end));
  base::ManualClock clock;
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 12, .prefill_pages = 8, .link_pages = 1, .chunk_tokens = 32},
                    &clock);
  wire::GenerateRequest request;
  request.prompt = prompt_of(90, 1);  // three chunks, six pages to convert
  request.max_tokens = 20;
  request.sampling.temperature = 0.0f;
  if (end == End::kDeadline) request.deadline = clock.now() + std::chrono::seconds(5);
  const auto victim = stack.submit(std::move(request));
  const auto neighbour = stack.submit(prompt_of(20, 2), 30);
  for (int step = 0; step < steps; ++step) stack.step();
  if (end == End::kCancel) stack.router().cancel(victim.id);
  if (end == End::kDrain) stack.router().drain(clock.now());
  clock.advance(std::chrono::seconds(5));
  stack.step();
  ASSERT_EQ(victim.sink->finishes(), 1);
  EXPECT_NE(victim.sink->finish()->reason, FinishReason::kLength);
  ASSERT_TRUE(stack.violations().empty());
  ASSERT_TRUE(stack.run_until_idle());
  ASSERT_EQ(neighbour.sink->finishes(), 1);
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
  if (end == End::kDrain) return;
  EXPECT_EQ(neighbour.sink->tokens(), expected(prompt_of(20, 2), 30));
  const auto next = stack.submit({3, 1, 4}, 5);  // ALIVE
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(next.sink->tokens(), expected({3, 1, 4}, 5));
}

// C053, C077
TEST(Split, WhatEndsOnItsWayLeavesNothingBehindWhereverItIs) {
  for (int steps = 0; steps < 18; ++steps) {
    for (const End end : {End::kCancel, End::kDeadline, End::kDrain}) end_after(steps, end);
  }
}

TEST(Split, ALogitThatIsNoNumberEndsItsRequestInEitherPool) {
  for (const bool in_prefill : {true, false}) {
    CheckingDecoder decoder(small_facts(64, 512), {});
    const Tokens bad = {4, 5, 6};
    const Tokens answer = CheckingDecoder::expected_answer(bad, 3, 64);
    decoder.poison_after(in_prefill ? 6 : answer[0]);
    EngineStack stack(decoder, {.prefill_pages = 16});
    const auto failed = stack.submit(bad, 6);
    const auto neighbour = stack.submit({7}, 1);
    ASSERT_TRUE(stack.run_until_idle());
    EXPECT_EQ(failed.sink->finish()->reason, FinishReason::kError);
    EXPECT_EQ(failed.sink->tokens().size(), in_prefill ? 0u : 1u);
    EXPECT_EQ(neighbour.sink->finish()->reason, FinishReason::kLength);
    stack.expect_idle();
  }
}

}  // namespace
}  // namespace bulkhead
