#include "decode/decode_pool.h"

#include <gtest/gtest.h>

#include "engine/testing/event_trace.h"
#include "engine/testing/scripted_decoder.h"
#include "kv/invariants.h"
#include "kv/page_pool.h"
#include "transfer/by_reference.h"

namespace bulkhead::decode {
namespace {

using engine::testing::EventTrace;
using engine::testing::ScriptedDecoder;
using Lines = std::vector<std::string>;

// Counts up from the sequence's last token.
wire::TokenId count_up(std::span<const wire::TokenId> prompt,
                       std::span<const wire::TokenId> generated) {
  return 1 + (generated.empty() ? prompt.back() : generated.back());
}

struct Bench {
  explicit Bench(uint32_t running_max = 4)
      : decode({running_max}, {*executor, sampler, link, &index}) {}

  // A sequence whose prompt was {token} and whose first answer token is token + 1.
  void offer(wire::Slot slot, wire::TokenId token, int32_t max_tokens,
             std::vector<wire::TokenId> stop_ids = {}) {
    wire::GenerateRequest request;
    request.prompt = {token};
    request.max_tokens = max_tokens;
    request.stop_ids = std::move(stop_ids);
    request.sampling.temperature = 0.0f;
    transfer::Handoff handoff{wire::SequenceState(std::move(request), slot),
                              kv::PageTable(*pool, 1 + max_tokens)};
    ASSERT_TRUE(handoff.pages.cover(1));
    feed(handoff);
    handoff.state.written = 1;
    handoff.state.tokens.push_back(token + 1);
    link.offer(std::move(handoff));
  }
  void feed(const transfer::Handoff& handoff) {
    engine::StepPlan plan(decoder.limits());
    plan.add({handoff.state.prompt(), 0, handoff.pages.pages(), model::LogitsFor::kLast});
    executor->run(plan);
  }
  Lines step() {
    EXPECT_TRUE(decode.prepare(events));
    decode.step(events);
    return events.take();
  }

  ScriptedDecoder decoder{engine::testing::small_facts(200, 4096),
                          {.rows_max = 64, .logits_rows_max = 8, .slices_max = 8},
                          count_up};
  std::unique_ptr<kv::PagePool> pool =
      std::move(kv::PagePool::create(engine::testing::small_layout(16), {.pages = 16})).value();
  // Scripts tell sequences apart by their first page, so nothing is shared here.
  kv::PrefixIndex index{*pool, {.enabled = false}};
  std::unique_ptr<engine::Executor> executor =
      std::move(engine::Executor::create(decoder, pool->view())).value();
  sampling::Sampler sampler{200};
  transfer::ByReference link{8};
  DecodePool decode;
  EventTrace events;
};

TEST(DecodePool, GivesEachSequenceOneTokenPerStep) {
  Bench bench;
  bench.offer(0, 10, 4);
  bench.offer(1, 50, 3);
  EXPECT_EQ(bench.step(), (Lines{"0: accepted", "1: accepted", "0: token 12", "1: token 52"}));
  EXPECT_EQ(bench.step(), (Lines{"0: token 13", "1: token 53", "1: end length", "1: released"}));
  EXPECT_EQ(bench.step(), (Lines{"0: token 14", "0: end length", "0: released"}));
  EXPECT_EQ(bench.decode.step(bench.events).outcome, wire::StepOutcome::kIdle);
  EXPECT_TRUE(kv::validate_idle(bench.pool->snapshot()).empty());
}

TEST(DecodePool, LeavesInTheLinkWhatHasNoRow) {
  Bench bench(1);
  bench.offer(0, 10, 2);
  bench.offer(1, 50, 2);
  EXPECT_EQ(bench.step(), (Lines{"0: accepted", "0: token 12", "0: end length", "0: released"}));
  EXPECT_EQ(bench.link.in_transit(), 1u);
  EXPECT_EQ(bench.step(), (Lines{"1: accepted", "1: token 52", "1: end length", "1: released"}));
}

TEST(DecodePool, TakesAFurtherPageWhenTheLastOneIsFull) {
  Bench bench;
  bench.offer(0, 10, 40);
  for (int i = 0; i < 15; ++i) bench.step();
  EXPECT_EQ(bench.decode.sequences()[0].pages.pages().size(), 1u);
  bench.step();
  EXPECT_EQ(bench.decode.sequences()[0].pages.pages().size(), 2u);
}

TEST(DecodePool, SaysBeforeAStepThatTheCacheIsFull) {
  Bench bench;
  bench.offer(0, 10, 300);
  bench.offer(1, 50, 40);
  ASSERT_TRUE(bench.decode.prepare(bench.events));
  std::vector<kv::Lease> others;
  while (bench.pool->counts().available > 0) others.push_back(bench.pool->reserve(1).take());
  for (int i = 0; i < 15; ++i) bench.step();
  EXPECT_FALSE(bench.decode.prepare(bench.events));
  const auto back = bench.decode.preempt(1);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->written, 0);
  EXPECT_EQ(back->tokens.size(), 17u);  // prompt, first token, one for each step
  EXPECT_EQ(bench.step().size(), 1u);   // the page it gave up serves the other
  EXPECT_FALSE(bench.decode.preempt(1).has_value());
}

TEST(DecodePool, TakesBackASequenceThatHasNotArrivedYet) {
  Bench bench(1);
  bench.offer(0, 10, 5);
  bench.offer(1, 50, 5);
  bench.step();
  const auto back = bench.decode.preempt(1);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->tokens.size(), 2u);
  EXPECT_EQ(bench.link.in_transit(), 0u);
}

TEST(DecodePool, AStopIdEndsWithoutBeingEmitted) {
  Bench bench;
  bench.offer(0, 10, 40, {13});
  EXPECT_EQ(bench.step(), (Lines{"0: accepted", "0: token 12"}));
  EXPECT_EQ(bench.step(), (Lines{"0: end stop by 13", "0: released"}));
}

TEST(DecodePool, AbortsRunningAndArrivingSequencesAlike) {
  Bench bench(1);
  bench.offer(0, 10, 5);
  bench.offer(1, 50, 5);
  bench.step();
  bench.decode.abort(1, bench.events);  // still in the link
  bench.decode.abort(7, bench.events);  // not here
  bench.decode.abort(0, bench.events);
  EXPECT_EQ(bench.events.take(), (Lines{"1: released", "0: released"}));
  EXPECT_TRUE(kv::validate_idle(bench.pool->snapshot()).empty());
}

// C176
TEST(DecodePool, NonFiniteLogitsEndOnlyTheirOwnSequence) {
  Bench bench;
  bench.decoder.set_script([](auto prompt, auto generated) {
    return prompt[0] == 50 && generated.size() == 2 ? ScriptedDecoder::kNotANumber
                                                    : count_up(prompt, generated);
  });
  bench.offer(0, 10, 40);
  bench.offer(1, 50, 40);
  bench.offer(2, 90, 40);
  bench.step();
  ASSERT_TRUE(bench.decode.prepare(bench.events));
  EXPECT_EQ(bench.decode.step(bench.events).outcome, wire::StepOutcome::kFailed);
  EXPECT_EQ(bench.events.take(),
            (Lines{"0: token 13", "1: end error", "1: released", "2: token 93"}));
  EXPECT_EQ(bench.step(), (Lines{"0: token 14", "2: token 94"}));
}

}  // namespace
}  // namespace bulkhead::decode
