// Every class of fault, injected into a running engine: it is noticed before anything wrong is
// emitted, whoever is hit ends with an error that may be tried again, and nobody else's answer has
// another bit. Without a fault, nothing is ever noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/rng.h"
#include "engine/testing/checking_decoder.h"
#include "engine/testing/scripted_decoder.h"
#include "support/engine_stack.h"
#include "wire/faults.h"

namespace bulkhead {
namespace {

using engine::testing::CheckingDecoder;
using engine::testing::small_facts;
using kv::integrity::Fault;
using kv::integrity::Injector;
using kv::integrity::Kind;
using kv::integrity::Mode;
using testing::EngineStack;
using testing::StackOptions;
using wire::FinishReason;
using Tokens = std::vector<wire::TokenId>;

constexpr int32_t kVocabulary = 96;
constexpr model::StepLimits kLimits{.rows_max = 512, .logits_rows_max = 64, .slices_max = 64};

Tokens text(uint64_t seed, int32_t tokens) {
  Tokens out;
  for (int32_t i = 0; i < tokens; ++i) {
    out.push_back(static_cast<wire::TokenId>(base::random_bits(seed, 0, static_cast<uint64_t>(i)) %
                                             kVocabulary));
  }
  return out;
}

struct Ask {
  Tokens prompt;
  int32_t max_tokens = 1;
  int tenant = 0;
};

// Prompts of two tenants; half of a tenant's begin alike.
Ask any_ask(base::Rng& rng) {
  Ask ask;
  ask.tenant = static_cast<int>(rng.below(2));
  if (rng.below(2) == 0) ask.prompt = text(static_cast<uint64_t>(ask.tenant), 48);
  const Tokens own = text(rng.bits(), static_cast<int32_t>(40 + rng.below(40)));
  ask.prompt.insert(ask.prompt.end(), own.begin(), own.end());
  ask.max_tokens = static_cast<int32_t>(20 + rng.below(30));
  return ask;
}

struct Asked {
  Ask ask;
  EngineStack::Running running;
};

Asked submit(EngineStack& stack, Ask ask) {
  wire::GenerateRequest request;
  request.prompt = ask.prompt;
  request.max_tokens = ask.max_tokens;
  request.sampling.temperature = 0.0f;
  request.cache.tenant = {static_cast<uint8_t>(ask.tenant + 1)};
  return {std::move(ask), stack.submit(std::move(request))};
}

bool is_integrity_error(const std::optional<wire::FinishEvent>& finish) {
  return finish && finish->reason == FinishReason::kError && finish->error &&
         finish->error->field == wire::kIntegrity;
}

// How many were ended; everybody else has the answer of an engine of one's own.
int expect_right_or_refused(const std::vector<Asked>& all) {
  int refused = 0;
  for (const Asked& one : all) {
    const Tokens expected =
        CheckingDecoder::expected_answer(one.ask.prompt, one.ask.max_tokens, kVocabulary);
    const Tokens got = one.running.sink->tokens();
    EXPECT_EQ(one.running.sink->finishes(), 1);
    if (is_integrity_error(one.running.sink->finish())) {
      ++refused;
      EXPECT_LT(got.size(), expected.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()));
    } else {
      EXPECT_EQ(one.running.sink->finish()->reason, FinishReason::kLength);
      EXPECT_EQ(got, expected);
    }
  }
  return refused;
}

StackOptions options_of(bool split, Mode mode) {
  StackOptions options{.pages = 120, .chunk_tokens = 32, .running_max = 6};
  if (split) options.prefill_pages = 80;
  options.integrity = mode;
  return options;
}

struct Outcome {
  int refused = 0;
  uint64_t noticed = 0;
  uint64_t foreign_slots = 0;  // that the model read
  bool right = true;           // every answer that came to its end
};

// Twelve requests, with the fault in the middle of them.
Outcome run_with(Fault fault, uint64_t seed, bool split, Mode mode, bool in_prefill = false) {
  base::Rng rng(seed);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  Injector injector(seed);
  StackOptions options = options_of(split, mode);
  (in_prefill ? options.prefill_faults : options.faults) = &injector;
  EngineStack stack(decoder, options);
  std::vector<Asked> all;
  for (int step = 0; all.size() < 12 || step < 60; ++step) {
    if (step % 4 == 0 && all.size() < 12) all.push_back(submit(stack, any_ask(rng)));
    if (step == 20) injector.order(fault);
    stack.step();
  }
  EXPECT_TRUE(stack.run_until_idle());
  EXPECT_EQ(injector.done().size(), 1u) << to_string(fault);
  Outcome outcome;
  outcome.foreign_slots = decoder.faults();
  if (mode == Mode::kAbort) {
    outcome.refused = expect_right_or_refused(all);
    // The engine goes on: the same again, whole.
    const Asked again = submit(stack, all[0].ask);
    EXPECT_TRUE(stack.run_until_idle());
    EXPECT_EQ(expect_right_or_refused({again}), 0);
    stack.expect_idle();
  } else {
    for (const Asked& one : all) {
      const bool same =
          one.running.sink->tokens() ==
          CheckingDecoder::expected_answer(one.ask.prompt, one.ask.max_tokens, kVocabulary);
      outcome.right = outcome.right && same;
    }
  }
  outcome.noticed = stack.mismatches();
  return outcome;
}

class EveryFault : public ::testing::TestWithParam<Fault> {};

// C037, C052
TEST_P(EveryFault, EndsWhomItHitsAndNobodyElseInTheSharedPlacement) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = run_with(GetParam(), seed, false, Mode::kAbort);
    EXPECT_GT(outcome.noticed, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.foreign_slots, 0u) << "seed " << seed;
  }
}

// C037
TEST_P(EveryFault, EndsWhomItHitsAndNobodyElseInDecodesOwnPages) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = run_with(GetParam(), seed, true, Mode::kAbort);
    EXPECT_GT(outcome.noticed, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.foreign_slots, 0u) << "seed " << seed;
  }
}

TEST_P(EveryFault, EndsWhomItHitsAndNobodyElseInPrefillsOwnPages) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = run_with(GetParam(), seed, true, Mode::kAbort, true);
    EXPECT_EQ(outcome.foreign_slots, 0u) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Integrity, EveryFault,
                         ::testing::Values(Fault::kStaleMapping, Fault::kOverwrittenEntry,
                                           Fault::kOutOfRangeId, Fault::kWrongOrder,
                                           Fault::kPermutedTable, Fault::kDoubleAllocation,
                                           Fault::kMissedReference, Fault::kTagFlip,
                                           Fault::kWrongLabel),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// Nobody has a digest of a page that is still written.
TEST(Integrity, AFlippedBitOfATailPageIsNotNoticedAndChangesAnAnswer) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = run_with(Fault::kTailFlip, seed, false, Mode::kObserve);
    EXPECT_EQ(outcome.noticed, 0u) << "seed " << seed;
    wrong += outcome.right ? 0 : 1;
  }
  EXPECT_GT(wrong, 0);
}

// C037: the same run without the check is what the check is there for: it can see a leak.
TEST(Integrity, WithoutTheCheckForeignPagesAreReadAndAnswersAreWrong) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Fault fault : {Fault::kStaleMapping, Fault::kOverwrittenEntry, Fault::kWrongOrder}) {
      const Outcome outcome = run_with(fault, seed, false, Mode::kOff);
      EXPECT_GT(outcome.foreign_slots, 0u);
      wrong += outcome.right ? 0 : 1;
    }
  }
  EXPECT_GT(wrong, 0);
}

TEST(Integrity, ObserveCountsAndGoesOn) {
  const Outcome outcome = run_with(Fault::kWrongOrder, 3, false, Mode::kObserve);
  EXPECT_EQ(outcome.noticed, 4u);  // two entries, before and after the step
  EXPECT_GT(outcome.foreign_slots, 0u);
}

// Whatever is damaged, as often as that can happen to one engine, while it only looks on.
class EveryFaultObserved : public ::testing::TestWithParam<Fault> {};

void observe_many(Fault fault, uint64_t seed, bool split, bool in_prefill) {
  base::Rng rng(seed);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  Injector injector(seed);
  StackOptions options = options_of(split, Mode::kObserve);
  options.pages = split ? 60 : 44;  // so that pages are evicted and requests preempted
  if (split) options.prefill_pages = 34;
  (in_prefill ? options.prefill_faults : options.faults) = &injector;
  EngineStack stack(decoder, options);
  std::vector<Asked> all;
  for (int step = 0; all.size() < 24; ++step) {
    if (step % 4 == 0) all.push_back(submit(stack, any_ask(rng)));
    if (step % 24 == 12) injector.order(fault);
    stack.step();
  }
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_GT(injector.done().size(), 1u);
  for (const Asked& one : all) EXPECT_EQ(one.running.sink->finishes(), 1);
  const kv::PageCounts counts = stack.pages().counts();
  EXPECT_EQ(counts.available + counts.cached + counts.quarantined, counts.total);
}

TEST_P(EveryFaultObserved, EndsNoProcess) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    observe_many(GetParam(), seed, false, false);
    observe_many(GetParam(), seed, true, false);
    observe_many(GetParam(), seed, true, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Integrity, EveryFaultObserved,
                         ::testing::Values(Fault::kStaleMapping, Fault::kOverwrittenEntry,
                                           Fault::kOutOfRangeId, Fault::kWrongOrder,
                                           Fault::kPermutedTable, Fault::kDoubleAllocation,
                                           Fault::kMissedReference, Fault::kTagFlip,
                                           Fault::kWrongLabel, Fault::kTailFlip),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// What was found to be wrong is not handed to whoever asks for the same text next.
TEST(Integrity, ObserveKeepsAPermutedTableOutOfThePrefixIndex) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  Injector injector;
  StackOptions options = options_of(false, Mode::kObserve);
  options.faults = &injector;
  EngineStack stack(decoder, options);
  const Ask ask{text(1, 100), 20, 0};
  submit(stack, ask);
  for (int i = 0; i < 2; ++i) stack.step();
  injector.order(Fault::kPermutedTable);
  ASSERT_TRUE(stack.run_until_idle());
  ASSERT_EQ(injector.done().size(), 1u);
  EXPECT_GT(stack.mismatches(Kind::kMisplaced), 0u);
  EXPECT_GT(stack.mismatches(Kind::kStamp), 0u);
  EXPECT_EQ(stack.index().size(), 0);
  const Asked again = submit(stack, ask);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(expect_right_or_refused({again}), 0);
  stack.expect_idle();
}

TEST(Integrity, NoModeReadsOutsideOfThePool) {
  base::Rng rng(3);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  Injector injector;
  StackOptions options = options_of(false, Mode::kObserve);
  options.faults = &injector;
  EngineStack stack(decoder, options);
  const Asked asked = submit(stack, any_ask(rng));
  injector.order(Fault::kOutOfRangeId);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(expect_right_or_refused({asked}), 1);
  stack.expect_idle();
}

// A model during whose step something happens once.
class InterruptedDecoder final : public model::Decoder {
 public:
  const model::ModelFacts& facts() const override { return decoder_.facts(); }
  const model::StepLimits& limits() const override { return decoder_.limits(); }
  void forward(std::span<const model::SequenceSlice> slices, const kv::CacheView& cache,
               std::span<float> logits) override {
    if (const auto meanwhile = std::exchange(meanwhile_, nullptr)) meanwhile(slices[0].pages[0]);
    decoder_.forward(slices, cache, logits);
  }
  // In the next step, told a page that is read in it.
  void interrupt(std::function<void(kv::PageId)> meanwhile) { meanwhile_ = std::move(meanwhile); }

 private:
  CheckingDecoder decoder_{small_facts(kVocabulary, 1024), kLimits};
  std::function<void(kv::PageId)> meanwhile_;
};

// Steps until the request has so many tokens.
void step_until(EngineStack& stack, const Asked& asked, size_t tokens) {
  for (int i = 0; i < 100 && asked.running.sink->tokens().size() < tokens; ++i) stack.step();
  ASSERT_EQ(asked.running.sink->tokens().size(), tokens);
}

// C037: what the check before a read cannot see, the one after it does.
TEST(Integrity, APageThatIsLostWhileItIsReadCostsItsReaderTheTokenOfThatStep) {
  for (const bool split : {false, true}) {
    for (const size_t tokens : {0u, 3u}) {  // while prefill reads, and while decode does
      InterruptedDecoder decoder;
      EngineStack stack(decoder, options_of(split, Mode::kAbort));
      kv::PagePool& pool = tokens == 0 ? stack.filled_pages() : stack.pages();
      const Asked asked = submit(stack, {text(1, 30), 10, 0});
      step_until(stack, asked, tokens);
      decoder.interrupt([&pool](kv::PageId page) { pool.quarantine(page); });
      ASSERT_TRUE(stack.run_until_idle());
      EXPECT_TRUE(is_integrity_error(asked.running.sink->finish()));
      EXPECT_EQ(asked.running.sink->tokens().size(), tokens);
      EXPECT_EQ(stack.mismatches(Kind::kQuarantined), 1u);
      stack.expect_idle();
    }
  }
}

// C039: whatever is asked for while a step runs, its pages come back when it is over.
TEST(Integrity, NoPageChangesItsLifeWhileAStepRuns) {
  for (const bool split : {false, true}) {
    for (const size_t tokens : {0u, 3u}) {
      InterruptedDecoder decoder;
      EngineStack stack(decoder, {.pages = 6, .prefill_pages = split ? 6 : 0, .running_max = 2});
      kv::PagePool& pool = tokens == 0 ? stack.filled_pages() : stack.pages();
      const Ask ask{text(1, 60), 10, 0};
      const Asked ended = submit(stack, ask);
      step_until(stack, ended, tokens);
      std::vector<Asked> next;
      std::vector<kv::Tag> before;
      decoder.interrupt([&](kv::PageId) {
        before.assign(pool.tags().begin(), pool.tags().end());
        stack.router().cancel(ended.running.id);
        stack.router().flush_cache();
        next.push_back(submit(stack, ask));
        next.push_back(submit(stack, {text(2, 60), 10, 0}));
        EXPECT_TRUE(std::ranges::equal(pool.tags(), before));
      });
      ASSERT_TRUE(stack.run_until_idle());
      EXPECT_EQ(ended.running.sink->finish()->reason, FinishReason::kCancelled);
      EXPECT_FALSE(std::ranges::equal(pool.tags(), before)) << "they did come back";
      EXPECT_EQ(expect_right_or_refused(next), 0);
      stack.expect_idle();
    }
  }
}

// What tags cannot see: the pages of a table exchanged together with what is expected of them. The
// very next step does not run, while a prompt is computed as well as in the midst of an answer.
TEST(Integrity, APermutedTableEndsItsReaderBeforeTheNextStepReads) {
  for (const bool split : {false, true}) {
    for (const size_t tokens : {0u, 3u}) {
      CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
      Injector injector;
      StackOptions options = options_of(split, Mode::kAbort);
      (split && tokens == 0 ? options.prefill_faults : options.faults) = &injector;
      EngineStack stack(decoder, options);
      const Ask ask{text(1, 100), 20, 0};
      const Asked asked = submit(stack, ask);
      for (int i = 0; i < 2; ++i) stack.step();
      if (tokens > 0) step_until(stack, asked, tokens);
      EXPECT_EQ(stack.mismatches(), 0u);
      injector.order(Fault::kPermutedTable);
      stack.step();
      ASSERT_EQ(injector.done().size(), 1u);
      EXPECT_TRUE(is_integrity_error(asked.running.sink->finish()));
      EXPECT_EQ(asked.running.sink->tokens().size(), tokens);
      EXPECT_EQ(stack.mismatches(Kind::kMisplaced), 2u);
      EXPECT_EQ(stack.mismatches(), 2u);
      EXPECT_EQ(decoder.faults(), 0u);
      const Asked again = submit(stack, ask);
      ASSERT_TRUE(stack.run_until_idle());
      EXPECT_EQ(expect_right_or_refused({again}), 0);
      EXPECT_EQ(stack.mismatches(), 2u);
      stack.expect_idle();
    }
  }
}

// Nor can places, where a page of another text stands in the right one.
TEST(Integrity, APageOfAnotherTextIsSeenByItsStampWhenThePromptIsWhole) {
  for (const bool split : {false, true}) {
    CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
    EngineStack stack(decoder, options_of(split, Mode::kAbort));
    const Asked asked = submit(stack, {text(1, 100), 20, 0});
    for (int i = 0; i < 2; ++i) stack.step();
    ASSERT_EQ(stack.prefill().sequences().size(), 1u);
    const kv::PageId page = stack.prefill().sequences()[0].pages.pages()[1];
    stack.filled_pages().integrity().set_stamp(page, {.high = 1, .low = 2});
    ASSERT_TRUE(stack.run_until_idle());
    EXPECT_TRUE(is_integrity_error(asked.running.sink->finish()));
    EXPECT_TRUE(asked.running.sink->tokens().empty());
    EXPECT_EQ(stack.mismatches(Kind::kStamp), 1u);
    EXPECT_EQ(stack.index().size(), 0);
    stack.expect_idle();
  }
}

TEST(Integrity, AFlippedBitOfASealedPageIsFoundAtRestAndTheNextRequestIsRight) {
  for (const bool split : {false, true}) {
    base::Rng rng(5);
    CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
    Injector injector(5);
    StackOptions options = options_of(split, Mode::kAbort);
    (split ? options.prefill_faults : options.faults) = &injector;
    EngineStack stack(decoder, options);
    const Ask ask = any_ask(rng);
    submit(stack, ask);
    ASSERT_TRUE(stack.run_until_idle());
    injector.order(Fault::kPageFlip);
    submit(stack, {text(77, 20), 2, 1});
    ASSERT_TRUE(stack.run_until_idle());
    for (int i = 0; i < 20; ++i) stack.step();
    EXPECT_EQ(stack.mismatches(Kind::kDigest), 1u);
    const Asked again = submit(stack, ask);
    ASSERT_TRUE(stack.run_until_idle());
    EXPECT_EQ(expect_right_or_refused({again}), 0);
    EXPECT_EQ(decoder.faults(), 0u);
    stack.expect_idle();
  }
}

TEST(Integrity, LogitsThatAreNoNumbersAreAKindOfTheirOwn) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  decoder.poison_after(63);
  EngineStack stack(decoder, options_of(false, Mode::kAbort));
  Tokens prompt(40, 1);
  prompt.push_back(63);
  stack.submit(prompt, 5);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(stack.mismatches(Kind::kNonFinite), 1u);
  EXPECT_EQ(stack.mismatches(), 1u);
  EXPECT_EQ(stack.index().size(), 0);
  stack.expect_idle();
}

// A pool that lost pages to failed checks may be too small for what it accepted.
TEST(Integrity, WhatFitsNoMoreIsToldSoInsteadOfWaitingForEver) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  StackOptions options{.pages = 8, .running_max = 2};
  options.integrity = Mode::kAbort;
  EngineStack stack(decoder, options);
  for (const kv::PageId page : {0, 1, 2, 3, 4}) stack.pages().quarantine(page);
  const auto long_prompt = stack.submit(text(1, 60), 4);
  const auto grows = stack.submit(text(2, 40), 30);
  const auto fits = stack.submit(text(3, 20), 4);
  for (int i = 0; i < 200; ++i) stack.step();
  for (const auto& one : {long_prompt, grows}) {
    ASSERT_EQ(one.sink->finish()->reason, FinishReason::kError);
    EXPECT_EQ(one.sink->finish()->error->code, base::ErrorCode::kResourceExhausted);
  }
  EXPECT_EQ(fits.sink->finish()->reason, FinishReason::kLength);
  stack.expect_idle();
}

void churn(bool split) {
  base::Rng rng(11);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  StackOptions options = options_of(split, Mode::kAbort);
  options.pages = split ? 60 : 40;  // so that pages are evicted and requests preempted
  if (split) options.prefill_pages = 30;
  EngineStack stack(decoder, options);
  std::vector<Asked> live;
  uint64_t ended = 0;
  for (int step = 0; ended < 300; ++step) {
    ASSERT_LT(step, 100000);
    while (live.size() < 8) live.push_back(submit(stack, any_ask(rng)));
    if (rng.below(10) == 0) stack.router().cancel(live[rng.below(live.size())].running.id);
    if (rng.below(200) == 0) stack.router().flush_cache();
    stack.step();
    std::vector<Asked> going;
    for (Asked& one : live) {
      if (one.running.sink->finishes() == 0) {
        going.push_back(std::move(one));
        continue;
      }
      ++ended;
      if (one.running.sink->finish()->reason == FinishReason::kCancelled) continue;
      ASSERT_EQ(expect_right_or_refused({one}), 0);
    }
    live = std::move(going);
  }
  for (const Asked& one : live) stack.router().cancel(one.running.id);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(stack.mismatches(), 0u);
  EXPECT_GT(stack.pages().integrity().report().pages_checked, 20000u);
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

TEST(Integrity, NothingIsNoticedWhereNothingIsWrong) { churn(false); }
TEST(Integrity, NorInTheSplitPlacement) { churn(true); }

}  // namespace
}  // namespace bulkhead
