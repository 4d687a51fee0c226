// Failures that others had with reused pages and with preemption, by their number in docs/cases.md:
// on the stand-in model that turns any foreign, stale or missing page into a wrong token.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "engine/testing/checking_decoder.h"
#include "engine/testing/scripted_decoder.h"
#include "support/engine_stack.h"

namespace bulkhead {
namespace {

using engine::testing::CheckingDecoder;
using engine::testing::small_facts;
using testing::EngineStack;
using wire::FinishReason;
using Tokens = std::vector<wire::TokenId>;

constexpr int32_t kVocabulary = 96;
constexpr int32_t kPage = 16;
constexpr model::StepLimits kLimits{.rows_max = 512, .logits_rows_max = 64, .slices_max = 64};

Tokens random_tokens(size_t count, uint64_t seed) {
  base::Rng rng(seed);
  Tokens tokens(count);
  for (auto& token : tokens) token = static_cast<wire::TokenId>(rng.below(kVocabulary));
  return tokens;
}

Tokens joined(Tokens start, const Tokens& end) {
  start.insert(start.end(), end.begin(), end.end());
  return start;
}

Tokens expected(const Tokens& prompt, int32_t count) {
  return CheckingDecoder::expected_answer(prompt, count, kVocabulary);
}

// Runs one request to its end.
wire::FinishEvent ask(EngineStack& stack, const Tokens& prompt, int32_t max_tokens) {
  const auto running = stack.submit(prompt, max_tokens);
  EXPECT_TRUE(running.status.ok());
  EXPECT_TRUE(stack.run_until_idle());
  EXPECT_EQ(running.sink->tokens(), expected(prompt, max_tokens));
  EXPECT_EQ(running.sink->finishes(), 1);
  const wire::FinishEvent finish = *running.sink->finish();
  EXPECT_LT(finish.cached_tokens, finish.prompt_tokens);
  return finish;
}

// Steps until nothing is left, with the books balanced after every step.
void run_balanced(EngineStack& stack) {
  for (int step = 0; step < 100000; ++step) {
    const auto outcome = stack.step();
    const auto found = stack.violations();
    ASSERT_TRUE(found.empty()) << "step " << step << ": " << kv::describe(found);
    if (outcome == wire::StepOutcome::kIdle) return;
  }
  FAIL() << "it never ends";
}

// C042
TEST(ReuseCases, PromptsThatBeginAlikeNeverMixUnderConcurrencyAndCancellation) {
  const Tokens shared = random_tokens(64, 1);
  for (const bool with_aborts : {false, true}) {
    base::Rng rng(with_aborts ? 2 : 3);
    CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
    EngineStack stack(decoder, {.page_tokens = kPage, .pages = 90, .running_max = 32});
    ask(stack, shared, 1);
    std::vector<Tokens> prompts;
    std::vector<EngineStack::Running> running;
    for (uint64_t i = 0; i < 32; ++i) {
      prompts.push_back(joined(shared, random_tokens(40, 100 + i)));
      running.push_back(stack.submit(prompts.back(), 30));
    }
    for (int step = 0; with_aborts && step < 60; ++step) {
      if (rng.below(4) == 0) stack.router().cancel(running[rng.below(running.size())].id);
      stack.step();
      ASSERT_TRUE(stack.violations().empty());
    }
    ASSERT_NO_FATAL_FAILURE(run_balanced(stack));
    for (size_t i = 0; i < running.size(); ++i) {
      const Tokens tokens = running[i].sink->tokens();
      EXPECT_EQ(tokens, expected(prompts[i], static_cast<int32_t>(tokens.size())));
      if (running[i].sink->finish()->reason == FinishReason::kLength) {
        EXPECT_EQ(tokens.size(), 30u);
      }
      EXPECT_LE(running[i].sink->finish()->cached_tokens, 64 + 32);
    }
    EXPECT_EQ(decoder.faults(), 0u);
    stack.expect_idle();
  }
}

// C058
TEST(ReuseCases, AHitOfEveryLengthGivesTheAnswerOfAMiss) {
  const Tokens prompt = random_tokens(70, 4);
  for (size_t known = 0; known <= prompt.size(); ++known) {
    CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
    EngineStack stack(decoder, {.page_tokens = kPage, .chunk_tokens = 24});
    const Tokens start(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(known));
    if (known > 0) ask(stack, start, 1);
    const wire::FinishEvent finish = ask(stack, prompt, 12);
    EXPECT_EQ(finish.cached_tokens, static_cast<int32_t>(known) / kPage * kPage) << known;
    EXPECT_EQ(decoder.faults(), 0u);
    stack.expect_idle();
  }
}

// C059
TEST(ReuseCases, PromptsAroundEveryLimitGiveTheirTokensOnTheFirstAndOnTheSecondAsking) {
  constexpr int32_t kChunk = 64;
  CheckingDecoder decoder(small_facts(kVocabulary, 4096), kLimits);
  EngineStack stack(decoder, {.page_tokens = kPage, .pages = 64, .chunk_tokens = kChunk});
  for (const int32_t edge : {kPage, 2 * kPage, kChunk, 2 * kChunk, 512, 64 * kPage - 3}) {
    for (int32_t length = edge - 1; length <= edge + 1; ++length) {
      const Tokens prompt = random_tokens(static_cast<size_t>(length), 1000 + length);
      for (int again = 0; again < 2; ++again) {
        const wire::FinishEvent finish = ask(stack, prompt, 2);
        EXPECT_EQ(finish.completion_tokens, 2) << length;
        EXPECT_EQ(finish.reason, FinishReason::kLength);
        if (again > 0) {
          EXPECT_EQ(finish.cached_tokens, (length - 1) / kPage * kPage) << length;
        }
      }
    }
  }
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

// C071
TEST(ReuseCases, AFullyCachedPromptKeepsAComputedTokenAndItsChain) {
  for (const size_t length : {15, 16, 17, 32}) {
    CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
    EngineStack stack(decoder, {.page_tokens = kPage});
    const Tokens prompt = random_tokens(length, 7);
    for (int again = 0; again < 3; ++again) {
      const wire::FinishEvent finish = ask(stack, prompt, 20);
      EXPECT_EQ(finish.cached_tokens,
                again == 0 ? 0 : static_cast<int32_t>(length - 1) / kPage * kPage);
    }
    // The next turn of the conversation: the prompt's whole pages and the answer's are found.
    const Tokens next = joined(joined(prompt, expected(prompt, 20)), {1, 2, 3});
    const auto written = static_cast<int32_t>(length) + 19;
    EXPECT_EQ(ask(stack, next, 5).cached_tokens, written / kPage * kPage);
    EXPECT_EQ(decoder.faults(), 0u);
    stack.expect_idle();
  }
}

// C045
TEST(ReuseCases, TwoThatBeganAlikeInOneStepKeepOnlyPagesTheyHold) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.page_tokens = kPage, .pages = 36, .chunk_tokens = 256});
  const Tokens prompt = random_tokens(64, 8);
  const auto a = stack.submit(prompt, 100);
  const auto b = stack.submit(joined(prompt, {5}), 100);
  base::Rng rng(9);
  std::vector<std::pair<Tokens, EngineStack::Running>> others;
  for (int step = 0; step < 300; ++step) {
    if (step % 12 == 1) {
      const Tokens other = random_tokens(1 + rng.below(40), rng.bits());
      others.emplace_back(other, stack.submit(other, 10));
    }
    stack.step();
    ASSERT_TRUE(stack.violations().empty()) << kv::describe(stack.violations());
  }
  ASSERT_NO_FATAL_FAILURE(run_balanced(stack));
  EXPECT_EQ(a.sink->tokens(), expected(prompt, 100));
  EXPECT_EQ(b.sink->tokens(), expected(joined(prompt, {5}), 100));
  for (const auto& [other, running] : others) {
    EXPECT_EQ(running.sink->tokens(), expected(other, 10));
  }
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

struct Pressed {
  std::vector<int32_t> preemptions;
  int32_t total() const { return std::accumulate(preemptions.begin(), preemptions.end(), 0); }
};

// `prompts` at once, each with an answer of `max_tokens`, in a pool of `pages`.
Pressed press(const std::vector<Tokens>& prompts, int32_t max_tokens, int32_t pages) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.page_tokens = kPage, .pages = pages, .running_max = 16});
  std::vector<EngineStack::Running> running;
  running.reserve(prompts.size());
  for (const Tokens& prompt : prompts) running.push_back(stack.submit(prompt, max_tokens));
  run_balanced(stack);
  Pressed out;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const wire::FinishEvent finish = *running[i].sink->finish();
    EXPECT_EQ(finish.reason, FinishReason::kLength);
    EXPECT_EQ(running[i].sink->tokens(), expected(prompts[i], max_tokens)) << i;
    EXPECT_EQ(finish.completion_tokens, max_tokens);
    EXPECT_EQ(finish.prompt_tokens, static_cast<int32_t>(prompts[i].size()));
    EXPECT_LT(finish.cached_tokens, finish.prompt_tokens);
    out.preemptions.push_back(finish.preemptions);
  }
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
  return out;
}

// C096
TEST(ReuseCases, TenRequestsInRoomForOneAndAHalfAllFinishWithBoundedPreemption) {
  std::vector<Tokens> prompts;
  for (uint64_t i = 0; i < 10; ++i) prompts.push_back(random_tokens(20, 20 + i));
  const Pressed pressed = press(prompts, 200, 21);  // one needs 14 pages
  EXPECT_GT(pressed.total(), 0);
  EXPECT_LE(pressed.total(), 10 * 10);
  EXPECT_EQ(pressed.preemptions.front(), 0) << "the oldest never gives way";
}

// C094: requests alike to the last token share every whole page, so that a victim frees little.
TEST(ReuseCases, VictimsThatShareTheirPagesDoNotMakePreemptionCascade) {
  for (const size_t count : {2, 4, 8}) {
    for (const int32_t pages : {8, 9, 10, 12}) {
      const std::vector<Tokens> prompts(count, random_tokens(20, 30));
      const Pressed pressed = press(prompts, 100, pages);
      const auto n = static_cast<int32_t>(count);
      EXPECT_LE(pressed.total(), n * n) << n << " requests, " << pages << " pages";
      EXPECT_EQ(pressed.preemptions.front(), 0);
    }
  }
}

// C102, C085
TEST(ReuseCases, UsageIsThatOfTheFirstAdmissionHoweverOftenARequestGaveWay) {
  const Tokens known = random_tokens(32, 40);
  int32_t most = 0;
  for (int32_t pages = 14; pages <= 40; ++pages) {
    CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
    EngineStack stack(decoder, {.page_tokens = kPage, .pages = pages, .running_max = 16});
    ask(stack, known, 1);
    std::vector<EngineStack::Running> running;
    std::vector<Tokens> prompts;
    for (uint64_t i = 0; i < 12; ++i) {
      prompts.push_back(joined(known, random_tokens(2 + 3 * i, 50 + i)));
      running.push_back(stack.submit(prompts.back(), 150));
    }
    ASSERT_NO_FATAL_FAILURE(run_balanced(stack));
    for (size_t i = 0; i < running.size(); ++i) {
      const wire::FinishEvent finish = *running[i].sink->finish();
      EXPECT_EQ(running[i].sink->tokens(), expected(prompts[i], 150));
      EXPECT_EQ(finish.prompt_tokens, static_cast<int32_t>(prompts[i].size()));
      EXPECT_LE(finish.cached_tokens, 32) << "what it found when it was first admitted";
      EXPECT_EQ(finish.completion_tokens, 150);
      most = std::max(most, finish.preemptions);
    }
    stack.expect_idle();
  }
  EXPECT_GE(most, 3) << "somebody gave way three times";
}

// C084
TEST(ReuseCases, TwoThousandHandoffsThroughASmallPoolAreAllRight) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.page_tokens = kPage, .pages = 32, .running_max = 8});
  base::Rng rng(60);
  std::vector<std::pair<Tokens, EngineStack::Running>> wave;
  for (int request = 0; request < 2000; ++request) {
    const Tokens prompt = random_tokens(1 + rng.below(60), rng.below(500));
    wave.emplace_back(prompt, stack.submit(prompt, static_cast<int32_t>(1 + rng.below(8))));
    if (wave.size() < 20) continue;
    ASSERT_TRUE(stack.run_until_idle());
    for (const auto& [asked, running] : wave) {
      const Tokens tokens = running.sink->tokens();
      ASSERT_EQ(tokens, expected(asked, static_cast<int32_t>(tokens.size()))) << request;
      ASSERT_EQ(running.sink->finish()->reason, FinishReason::kLength);
    }
    wave.clear();
  }
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

// C137
TEST(ReuseCases, ARequestThatMayTakeNoTokenEndsAloneWithAnError) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.page_tokens = kPage});
  const auto before = stack.submit({1, 2, 3}, 20);
  wire::GenerateRequest nothing;
  nothing.prompt = {4, 5, 6};
  nothing.max_tokens = 5;
  nothing.min_tokens = 5;
  nothing.stop_ids.resize(kVocabulary);
  std::iota(nothing.stop_ids.begin(), nothing.stop_ids.end(), 0);
  const auto stuck = stack.submit(std::move(nothing));
  ASSERT_TRUE(stuck.status.ok());
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(stuck.sink->finish()->reason, FinishReason::kError);
  EXPECT_TRUE(stuck.sink->finish()->error.has_value());
  EXPECT_TRUE(stuck.sink->tokens().empty());
  EXPECT_EQ(before.sink->tokens(), expected({1, 2, 3}, 20));
  ask(stack, {7, 8}, 5);
  stack.expect_idle();
}

}  // namespace
}  // namespace bulkhead
