#include "prefill/prefill_pool.h"

#include <gtest/gtest.h>

#include "engine/testing/checking_decoder.h"
#include "engine/testing/event_trace.h"
#include "engine/testing/scripted_decoder.h"
#include "kv/invariants.h"
#include "transfer/by_reference.h"

namespace bulkhead::prefill {
namespace {

using engine::testing::EventTrace;
using engine::testing::ScriptedDecoder;
using Lines = std::vector<std::string>;

// Answers a prompt with its length.
wire::TokenId prompt_length(std::span<const wire::TokenId> prompt, std::span<const wire::TokenId>) {
  return static_cast<wire::TokenId>(prompt.size());
}

struct Bench {
  explicit Bench(PrefillOptions options = {.chunk_tokens = 16, .sequences_max = 8},
                 int32_t pages = 16)
      : pool(std::move(kv::PagePool::create(engine::testing::small_layout(16), {.pages = pages}))
                 .value()),
        executor(std::move(engine::Executor::create(decoder, pool->view())).value()),
        prefill(options, {*pool, index, *executor, sampler, link}) {}

  bool admit(int32_t prompt_tokens, int32_t max_tokens, wire::Slot slot) {
    wire::GenerateRequest request;
    request.id = slot + 1;
    request.prompt.assign(static_cast<size_t>(prompt_tokens), 1);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0.0f;
    wire::SequenceState state(std::move(request), slot);
    return prefill.admit(state, 0).has_value();
  }
  Lines step() {
    prefill.step(events);
    return events.take();
  }

  ScriptedDecoder decoder{engine::testing::small_facts(200, 4096),
                          {.rows_max = 64, .logits_rows_max = 4, .slices_max = 8},
                          prompt_length};
  std::unique_ptr<kv::PagePool> pool;
  // Scripts tell sequences apart by their first page, so nothing is shared here.
  kv::PrefixIndex index{*pool, {.enabled = false}};
  std::unique_ptr<engine::Executor> executor;
  sampling::Sampler sampler{200};
  transfer::ByReference link{8};
  PrefillPool prefill;
  EventTrace events;
};

TEST(PrefillPool, RunsALongPromptInChunksAndOffersItOnce) {
  Bench bench;
  ASSERT_TRUE(bench.admit(40, 5, 3));
  EXPECT_EQ(bench.step(), Lines{});
  EXPECT_EQ(bench.step(), Lines{});
  EXPECT_EQ(bench.step(), (Lines{"3: token 40", "3: offered"}));
  EXPECT_EQ(bench.prefill.step(bench.events).outcome, wire::StepOutcome::kIdle);
  const auto handoff = bench.link.receive();
  ASSERT_TRUE(handoff.has_value());
  EXPECT_EQ(handoff->state.written, 40);
  EXPECT_EQ(handoff->state.unwritten().size(), 1u);
  EXPECT_EQ(handoff->pages.covered_tokens(), 48);
}

TEST(PrefillPool, SeveralShortPromptsShareAChunkAndALongOneTakesTheRest) {
  Bench bench;
  ASSERT_TRUE(bench.admit(5, 5, 0));
  ASSERT_TRUE(bench.admit(6, 5, 1));
  ASSERT_TRUE(bench.admit(20, 5, 2));
  ASSERT_TRUE(bench.admit(2, 5, 3));
  EXPECT_EQ(bench.step(), (Lines{"0: token 5", "0: offered", "1: token 6", "1: offered"}));
  EXPECT_EQ(bench.prefill.sequences()[0].state.written, 5);  // of slot 2
  EXPECT_EQ(bench.step(), (Lines{"2: token 20", "2: offered"}));
  EXPECT_EQ(bench.prefill.sequences()[0].state.written, 1);  // of slot 3
  EXPECT_EQ(bench.step(), (Lines{"3: token 2", "3: offered"}));
}

TEST(PrefillPool, NeverAsksForMoreLogitsRowsThanTheModelGives) {
  Bench bench;
  for (wire::Slot slot = 0; slot < 6; ++slot) ASSERT_TRUE(bench.admit(1, 5, slot));
  EXPECT_EQ(bench.step().size(), 8u);  // four of them
  EXPECT_EQ(bench.step().size(), 4u);
}

// C088
TEST(PrefillPool, ARequestForOneTokenNeverReachesDecode) {
  Bench bench;
  ASSERT_TRUE(bench.admit(5, 1, 0));
  EXPECT_EQ(bench.step(), (Lines{"0: token 5", "0: end length", "0: released"}));
  EXPECT_EQ(bench.link.in_transit(), 0u);
  EXPECT_TRUE(kv::validate_idle(bench.pool->snapshot()).empty());
}

TEST(PrefillPool, PromisesThePromptAndTheNextTokenOrSaysNo) {
  Bench bench({.chunk_tokens = 16, .sequences_max = 8}, 4);  // 64 tokens
  EXPECT_FALSE(bench.admit(64, 5, 0));
  EXPECT_TRUE(bench.admit(32, 18, 1));   // 3 pages: the third for the answer's first token
  EXPECT_FALSE(bench.admit(16, 70, 2));  // would need 2
  EXPECT_TRUE(bench.admit(15, 70, 3));
  EXPECT_EQ(bench.prefill.pages().free, 0);
  EXPECT_EQ(bench.prefill.pages().total, 4);
}

TEST(PrefillPool, LeavesSparePagesToThoseWhoRun) {
  Bench bench({.chunk_tokens = 16, .sequences_max = 8}, 4);
  wire::GenerateRequest request;
  request.id = 1;
  request.prompt.assign(20, 1);
  request.max_tokens = 4;
  wire::SequenceState state(std::move(request), 0);
  EXPECT_FALSE(bench.prefill.admit(state, 3).has_value());
  EXPECT_TRUE(bench.prefill.admit(state, 2).has_value());
}

TEST(PrefillPool, ARefusedRequestIsTakenOnceThereIsMoreRoom) {
  Bench bench({.chunk_tokens = 16, .sequences_max = 8}, 4);
  ASSERT_TRUE(bench.admit(40, 5, 0));
  EXPECT_FALSE(bench.admit(30, 5, 1));
  EXPECT_FALSE(bench.admit(30, 5, 1));
  EXPECT_TRUE(bench.admit(3, 5, 2));  // another one is judged by itself
  bench.prefill.abort(0, bench.events);
  EXPECT_TRUE(bench.admit(30, 5, 1));
}

// A prompt of six tokens on a model that gives four rows of logits at a time; scripts give only
// last rows.
struct Scoring {
  bool admit(int32_t top) {
    wire::GenerateRequest request;
    request.prompt = {5, 6, 7, 8, 9, 10};
    request.max_tokens = 0;
    request.prompt_logprobs = top;
    wire::SequenceState state(std::move(request), 3);
    return prefill.admit(state, 0).has_value();
  }

  engine::testing::CheckingDecoder decoder{engine::testing::small_facts(200, 4096),
                                           {.rows_max = 64, .logits_rows_max = 4}};
  Bench bench;
  std::unique_ptr<engine::Executor> executor =
      std::move(engine::Executor::create(decoder, bench.pool->view())).value();
  PrefillPool prefill{{.chunk_tokens = 16, .sequences_max = 2},
                      {*bench.pool, bench.index, *executor, bench.sampler, bench.link}};
};

TEST(PrefillPool, ScoresThePromptRowByRowWithinTheModelsLogitsRows) {
  Scoring scoring;
  Bench& bench = scoring.bench;
  PrefillPool& prefill = scoring.prefill;
  ASSERT_TRUE(scoring.admit(2));
  prefill.step(bench.events);
  EXPECT_EQ(bench.events.take(), (Lines{"3: prompt 1+4"}));
  prefill.step(bench.events);
  EXPECT_EQ(bench.events.take(), (Lines{"3: prompt 5+1", "3: end length", "3: released"}));
  EXPECT_TRUE(kv::validate_idle(bench.pool->snapshot()).empty());
}

TEST(PrefillPool, APreemptedPromptStartsOverAndKeepsItsScores) {
  Scoring scoring;
  Bench& bench = scoring.bench;
  PrefillPool& prefill = scoring.prefill;
  ASSERT_TRUE(scoring.admit(0));
  prefill.step(bench.events);
  EXPECT_FALSE(prefill.preempt(9).has_value());
  auto back = prefill.preempt(3);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->written, 0);
  EXPECT_EQ(back->scored, 5);
  EXPECT_TRUE(kv::validate_idle(bench.pool->snapshot()).empty());
  ASSERT_TRUE(prefill.admit(*back, 0).has_value());
  bench.events.take();
  prefill.step(bench.events);
  EXPECT_EQ(bench.events.take(), Lines{});  // tokens 1 to 4 have theirs
  prefill.step(bench.events);
  EXPECT_EQ(bench.events.take(), (Lines{"3: prompt 5+1", "3: end length", "3: released"}));
}

TEST(PrefillPool, ARefusedRequestIsLeftAsItWas) {
  Bench bench({.chunk_tokens = 16, .sequences_max = 1});
  ASSERT_TRUE(bench.admit(5, 5, 0));
  wire::GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 2;
  wire::SequenceState state(std::move(request), 1);
  EXPECT_FALSE(bench.prefill.admit(state, 0).has_value());
  EXPECT_EQ(state.tokens.size(), 3u);
}

TEST(PrefillPool, AbortGivesEverythingBackAtOnce) {
  Bench bench;
  ASSERT_TRUE(bench.admit(40, 5, 3));
  ASSERT_TRUE(bench.admit(4, 5, 4));
  bench.step();
  bench.prefill.abort(9, bench.events);  // not here
  EXPECT_EQ(bench.events.take(), Lines{});
  bench.prefill.abort(3, bench.events);
  EXPECT_EQ(bench.events.take(), (Lines{"3: released"}));
  EXPECT_EQ(bench.step(), (Lines{"4: token 4", "4: offered"}));
  bench.link.withdraw(4);
  EXPECT_TRUE(kv::validate_idle(bench.pool->snapshot()).empty());
}

TEST(PrefillPool, NonFiniteLogitsEndOnlyTheirOwnPrompt) {
  Bench bench;
  bench.decoder.set_script([](std::span<const wire::TokenId> prompt, auto) {
    return prompt.size() == 6 ? ScriptedDecoder::kNotANumber : 9;
  });
  ASSERT_TRUE(bench.admit(5, 5, 0));
  ASSERT_TRUE(bench.admit(6, 5, 1));
  ASSERT_TRUE(bench.admit(4, 5, 2));
  EXPECT_EQ(bench.prefill.step(bench.events).outcome, wire::StepOutcome::kFailed);
  EXPECT_EQ(bench.events.take(), (Lines{"0: token 9", "0: offered", "1: end error", "1: released",
                                        "2: token 9", "2: offered"}));
}

}  // namespace
}  // namespace bulkhead::prefill
