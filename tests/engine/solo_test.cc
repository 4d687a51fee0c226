// SOLO, CONSERVE and ALIVE over seeded random schedules: every answer under load is byte for byte
// the answer alone, the page books balance after every step, and nothing is left at the end.
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
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

constexpr int32_t kVocabulary = 96;
constexpr model::StepLimits kLimits{.rows_max = 512, .logits_rows_max = 64, .slices_max = 64};

struct Wanted {
  wire::GenerateRequest request;
  int submit_at = 0;   // step
  int cancel_at = -1;  // step; -1: never
};

struct Outcome {
  Tokens tokens;
  FinishReason reason = FinishReason::kError;
  wire::TokenId stop_id = -1;
};

wire::GenerateRequest random_request(base::Rng& rng, int64_t tokens_max) {
  wire::GenerateRequest request;
  const auto max_prompt = static_cast<uint64_t>(tokens_max / 2);
  request.prompt.resize(1 + rng.below(max_prompt));
  for (auto& token : request.prompt) token = static_cast<wire::TokenId>(rng.below(kVocabulary));
  request.max_tokens = static_cast<int32_t>(1 + rng.below(max_prompt));
  request.sampling.seed = rng.bits();
  request.sampling.temperature = rng.below(2) == 0 ? 0.0f : 0.9f;
  if (rng.below(4) == 0) request.sampling.top_k = static_cast<int32_t>(1 + rng.below(10));
  if (rng.below(4) == 0) request.sampling.top_p = 0.8f;
  if (rng.below(4) == 0) request.sampling.min_p = 0.05f;
  if (rng.below(4) == 0) request.sampling.frequency_penalty = 0.5f;
  if (rng.below(4) == 0) request.sampling.repetition_penalty = 1.2f;
  if (rng.below(2) == 0) {
    request.stop_ids = {static_cast<wire::TokenId>(rng.below(kVocabulary)), 1};
    request.min_tokens = static_cast<int32_t>(rng.below(4));
  }
  return request;
}

// The request alone on a fresh engine, its prompt in one chunk.
Outcome alone(wire::GenerateRequest request) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64, .chunk_tokens = 512, .running_max = 1});
  const auto running = stack.submit(std::move(request));
  EXPECT_TRUE(running.status.ok());
  EXPECT_TRUE(stack.run_until_idle());
  EXPECT_EQ(decoder.faults(), 0u);
  return {running.sink->tokens(), running.sink->finish()->reason, running.sink->finish()->stop_id};
}

void expect_same_as_alone(const Wanted& wanted, const EngineStack::Running& running) {
  const Outcome expected = alone(wanted.request);
  const Tokens tokens = running.sink->tokens();
  ASSERT_EQ(running.sink->finishes(), 1);
  EXPECT_EQ(running.sink->tokens_after_finish(), 0);
  const auto finish = running.sink->finish();
  EXPECT_EQ(finish->completion_tokens, static_cast<int32_t>(tokens.size()));
  EXPECT_EQ(finish->prompt_tokens, static_cast<int32_t>(wanted.request.prompt.size()));
  if (finish->reason == FinishReason::kCancelled) {
    ASSERT_GE(wanted.cancel_at, 0);
    ASSERT_LE(tokens.size(), expected.tokens.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.tokens.begin()));
    return;
  }
  EXPECT_EQ(finish->reason, expected.reason);
  EXPECT_EQ(finish->stop_id, expected.stop_id);
  EXPECT_EQ(tokens, expected.tokens);
}

void run_schedule(uint64_t seed, const StackOptions& options, int requests, int spread) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed << ", pages " << options.pages);
  base::Rng rng(seed);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, options);
  const int32_t pages =
      options.prefill_pages > 0 ? std::min(options.pages, options.prefill_pages) : options.pages;
  const int64_t tokens_max =
      std::min<int64_t>(160, static_cast<int64_t>(pages) * options.page_tokens);
  std::vector<Wanted> wanted;
  for (int i = 0; i < requests; ++i) {
    Wanted one{random_request(rng, tokens_max),
               static_cast<int>(rng.below(static_cast<uint64_t>(spread) + 1)), -1};
    if (rng.below(4) == 0) one.cancel_at = one.submit_at + static_cast<int>(rng.below(60));
    wanted.push_back(std::move(one));
  }
  std::map<size_t, EngineStack::Running> running;
  for (int step = 0; step < 20000; ++step) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].submit_at == step) running[i] = stack.submit(wanted[i].request);
      if (wanted[i].cancel_at == step) stack.router().cancel(running.at(i).id);
    }
    stack.prefill().set_chunk_tokens(static_cast<int32_t>(1 + rng.below(512)));
    const auto outcome = stack.step();
    const auto found = stack.violations();
    ASSERT_TRUE(found.empty()) << "step " << step << ": " << kv::describe(found);
    if (outcome == wire::StepOutcome::kIdle && step > spread + 60) break;
  }
  EXPECT_EQ(decoder.faults(), 0u);
  ASSERT_EQ(running.size(), wanted.size());
  for (const auto& [index, one] : running) {
    ASSERT_TRUE(one.status.ok());
    expect_same_as_alone(wanted[index], one);
  }
  stack.expect_idle();
  const auto next = stack.submit({3, 1, 4}, 5);  // ALIVE
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(next.sink->tokens(), CheckingDecoder::expected_answer({3, 1, 4}, 5, kVocabulary));
}

// C014, C142
TEST(Solo, FortyRequestsAtOnceEachGetTheAnswerTheyGetAlone) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    run_schedule(seed, {.page_tokens = 16, .pages = 480, .running_max = 48}, 40, 0);
  }
}

// C037, C052
TEST(Solo, ASmallPoolUnderChurnServesEverybody) {
  for (uint64_t seed = 100; seed < 130; ++seed) {
    base::Rng rng(seed);
    const auto pages = static_cast<int32_t>(4 + rng.below(7));
    const auto rows = static_cast<uint32_t>(1 + rng.below(4));
    run_schedule(seed, {.page_tokens = 16, .pages = pages, .running_max = rows}, 25, 300);
  }
}

// What is compared with is the answer alone in the shared placement.
TEST(Solo, TheSplitPlacementGivesTheAnswersOfTheSharedOne) {
  for (uint64_t seed = 40; seed < 43; ++seed) {
    run_schedule(seed, {.pages = 480, .prefill_pages = 240, .running_max = 48}, 40, 0);
  }
}

TEST(Solo, SmallSplitPoolsUnderChurnServeEverybody) {
  for (uint64_t seed = 200; seed < 230; ++seed) {
    base::Rng rng(seed);
    const auto pages = static_cast<int32_t>(4 + rng.below(17));
    const auto prefill_pages = static_cast<int32_t>(4 + rng.below(7));
    const auto link_pages = static_cast<int32_t>(1 + rng.below(3));
    const auto rows = static_cast<uint32_t>(1 + rng.below(6));
    run_schedule(seed,
                 {.pages = pages,
                  .prefill_pages = prefill_pages,
                  .link_pages = link_pages,
                  .running_max = rows,
                  .prefix_cache = rng.below(3) > 0},
                 25, 300);
  }
}

TEST(Solo, LargerPagesChangeNothing) {
  run_schedule(7, {.page_tokens = 64, .pages = 40, .running_max = 8}, 30, 100);
}

TEST(Solo, GreedyAnswersAreThoseOfTheOracle) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 200, .chunk_tokens = 7, .running_max = 32});
  std::vector<std::pair<Tokens, EngineStack::Running>> all;
  base::Rng rng(11);
  for (int i = 0; i < 32; ++i) {
    Tokens prompt(1 + rng.below(50));
    for (auto& token : prompt) token = static_cast<wire::TokenId>(rng.below(kVocabulary));
    all.emplace_back(prompt, stack.submit(prompt, 30));
  }
  ASSERT_TRUE(stack.run_until_idle());
  for (const auto& [prompt, running] : all) {
    EXPECT_EQ(running.sink->tokens(), CheckingDecoder::expected_answer(prompt, 30, kVocabulary));
  }
  stack.expect_idle();
}

// Every order of two or three requests with every cancellation point, in a pool they cannot share.
TEST(Solo, NoScheduleOfASmallPoolGetsStuck) {
  for (int second_at = 0; second_at < 4; ++second_at) {
    for (int third_at = 0; third_at < 4; ++third_at) {
      for (int cancel = 0; cancel < 4; ++cancel) {  // 3: nobody
        for (int cancel_at = 0; cancel_at < 12; cancel_at += cancel == 3 ? 12 : 1) {
          CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
          EngineStack stack(decoder, {.pages = 4, .chunk_tokens = 16, .running_max = 2});
          const int submit_at[] = {0, second_at, third_at};
          std::map<int, EngineStack::Running> running;
          for (int step = 0; step < 60; ++step) {
            for (int i = 0; i < 3; ++i) {
              if (submit_at[i] == step) running[i] = stack.submit(Tokens(20, i), 20 - 5 * i);
            }
            if (cancel_at == step && running.count(cancel)) {
              stack.router().cancel(running.at(cancel).id);
            }
            stack.step();
            ASSERT_TRUE(stack.violations().empty());
          }
          ASSERT_TRUE(stack.run_until_idle());
          for (const auto& [i, one] : running) ASSERT_EQ(one.sink->finishes(), 1);
          stack.expect_idle();
          ASSERT_EQ(decoder.faults(), 0u);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead
