// Scripted answers through the whole engine: limits, stops, errors, refusals.
#include <gtest/gtest.h>

#include <limits>

#include "engine/testing/checking_decoder.h"
#include "engine/testing/scripted_decoder.h"
#include "support/engine_stack.h"

namespace bulkhead {
namespace {

using engine::testing::CheckingDecoder;
using engine::testing::ScriptedDecoder;
using engine::testing::small_facts;
using testing::EngineStack;
using wire::FinishReason;
using Tokens = std::vector<wire::TokenId>;

constexpr wire::TokenId kEnd = 2;

wire::GenerateRequest request(Tokens prompt, int32_t max_tokens) {
  wire::GenerateRequest made;
  made.prompt = std::move(prompt);
  made.max_tokens = max_tokens;
  made.sampling.temperature = 0.0f;
  made.stop_ids = {kEnd};
  return made;
}

TEST(Answers, ComeOutWholeAndEndAtTheStopId) {
  ScriptedDecoder decoder(small_facts(100, 512), {}, ScriptedDecoder::answer_with({7, 8, 9}, kEnd));
  EngineStack stack(decoder, {});
  const auto running = stack.submit(request({1, 5, 6}, 10));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(running.sink->tokens(), (Tokens{7, 8, 9}));
  const auto finish = running.sink->finish();
  ASSERT_TRUE(finish.has_value());
  EXPECT_EQ(finish->reason, FinishReason::kStop);
  EXPECT_EQ(finish->stop_id, kEnd);
  EXPECT_EQ(finish->prompt_tokens, 3);
  EXPECT_EQ(finish->completion_tokens, 3);
  stack.expect_idle();
}

// C088
TEST(Answers, AreExactlyAsLongAsAllowed) {
  ScriptedDecoder decoder(small_facts(100, 512), {}, ScriptedDecoder::answer_with({}, 50));
  EngineStack stack(decoder, {});
  for (const int32_t max_tokens : {1, 2, 3, 16, 17, 100}) {
    const auto running = stack.submit(request({1}, max_tokens));
    ASSERT_TRUE(stack.run_until_idle());
    EXPECT_EQ(running.sink->tokens().size(), static_cast<size_t>(max_tokens));
    EXPECT_EQ(running.sink->finish()->reason, FinishReason::kLength);
    EXPECT_EQ(running.sink->finish()->completion_tokens, max_tokens);
    stack.expect_idle();
  }
}

// C087
TEST(Answers, MayBeEmptyWhenTheFirstTokenIsAStopId) {
  ScriptedDecoder decoder(small_facts(100, 512), {}, ScriptedDecoder::answer_with({}, kEnd));
  EngineStack stack(decoder, {});
  const auto running = stack.submit(request({1}, 10));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_TRUE(running.sink->tokens().empty());
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kStop);
  EXPECT_EQ(running.sink->finish()->completion_tokens, 0);
  stack.expect_idle();
}

// C087
TEST(Answers, MinTokensHoldsForTheFirstTokenToo) {
  // The script always wants to stop; the runner-up of its rows is token 0.
  ScriptedDecoder decoder(small_facts(100, 512), {}, ScriptedDecoder::answer_with({}, kEnd));
  EngineStack stack(decoder, {});
  auto wanted = request({1}, 10);
  wanted.min_tokens = 3;
  const auto running = stack.submit(std::move(wanted));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(running.sink->tokens(), (Tokens{0, 0, 0}));
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kStop);
}

// C176
TEST(Answers, NanEndsOneRequestAndNoOther) {
  CheckingDecoder decoder(small_facts(64, 512), {});
  const Tokens prompts[] = {{1, 2, 3}, {4, 5, 63}, {7}};
  decoder.poison_after(63);  // the second prompt's last token
  EngineStack stack(decoder, {});
  std::vector<EngineStack::Running> running;
  for (const Tokens& prompt : prompts) running.push_back(stack.submit(prompt, 6));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(running[1].sink->finish()->reason, FinishReason::kError);
  ASSERT_TRUE(running[1].sink->finish()->error.has_value());
  EXPECT_TRUE(running[1].sink->tokens().empty());
  for (const size_t other : {0u, 2u}) {
    const Tokens expected = CheckingDecoder::expected_answer(prompts[other], 6, 64);
    // An answer that happens to contain the poisoned token ends there, by its own fault.
    const auto fault = std::find(expected.begin(), expected.end(), 63);
    EXPECT_EQ(running[other].sink->tokens(),
              Tokens(expected.begin(), fault == expected.end() ? fault : fault + 1));
  }
  const auto after = stack.submit({9, 9}, 3);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(after.sink->finishes(), 1);
  stack.expect_idle();
}

// C095
TEST(Answers, ARequestThatCanNeverFitIsRefusedAndItsNeighbourIsServed) {
  CheckingDecoder decoder(small_facts(64, 4096), {});
  EngineStack stack(decoder, {.page_tokens = 16, .pages = 8});
  const auto neighbour = stack.submit(Tokens(20, 1), 4);
  const auto huge = stack.submit(Tokens(129, 1), 1);
  EXPECT_FALSE(huge.status.ok());
  EXPECT_EQ(huge.status.error().code, base::ErrorCode::kInvalidArgument);
  const auto largest = stack.submit(Tokens(120, 1), 8);  // all of the cache
  EXPECT_TRUE(largest.status.ok());
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(neighbour.sink->finish()->reason, FinishReason::kLength);
  EXPECT_EQ(largest.sink->tokens(), CheckingDecoder::expected_answer(Tokens(120, 1), 8, 64));
  EXPECT_EQ(huge.sink->finishes(), 0);
  stack.expect_idle();
}

TEST(Answers, DecodeGoesOnWhileALongPromptIsPrefilled) {
  CheckingDecoder decoder(small_facts(64, 4096), {});
  EngineStack stack(decoder, {.page_tokens = 16, .pages = 128, .chunk_tokens = 16});
  const auto talking = stack.submit({1, 2, 3}, 64);
  stack.step();  // prefill
  stack.step();  // first decode step
  const auto reading = stack.submit(Tokens(400, 5), 4);
  const size_t before = talking.sink->tokens().size();
  for (int i = 0; i < 25; ++i) stack.step();  // 25 chunks of 16
  EXPECT_EQ(talking.sink->tokens().size(), before + 25);
  EXPECT_EQ(reading.sink->tokens().size(), 1u);
  ASSERT_TRUE(stack.run_until_idle());
  stack.expect_idle();
}

TEST(Answers, LogprobsRideOnTheTokens) {
  ScriptedDecoder decoder(small_facts(100, 512), {}, ScriptedDecoder::answer_with({7, 8}, kEnd));
  EngineStack stack(decoder, {});
  auto wanted = request({1}, 10);
  wanted.sampling.top_logprobs = 3;
  const auto running = stack.submit(std::move(wanted));
  ASSERT_TRUE(stack.run_until_idle());
  const auto events = running.sink->events();
  ASSERT_EQ(events.size(), 2u);
  for (const wire::TokenEvent& event : events) {
    EXPECT_EQ(event.id, running.id);
    ASSERT_EQ(event.top_logprobs.size(), 3u);
    EXPECT_EQ(event.top_logprobs[0].id, event.token);
    EXPECT_EQ(event.top_logprobs[0].logprob, event.logprob);
    EXPECT_LT(event.logprob, 0.0f);
  }
}

// C105
TEST(Answers, ACancelledRequestStopsAtTheNextStep) {
  CheckingDecoder decoder(small_facts(64, 4096), {});
  EngineStack stack(decoder, {});
  const auto running = stack.submit({1, 2, 3}, 200);
  for (int i = 0; i < 10; ++i) stack.step();
  const size_t before = running.sink->tokens().size();
  stack.router().cancel(running.id);
  stack.step();
  EXPECT_EQ(running.sink->tokens().size(), before);
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kCancelled);
  EXPECT_EQ(running.sink->finish()->completion_tokens, static_cast<int32_t>(before));
  stack.expect_idle();
}

}  // namespace
}  // namespace bulkhead
