// What a step reads, held against what its sequences were given: before it, and after it before
// anything is emitted.
#include "engine/step_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/event_trace.h"
#include "kv/integrity/injector.h"
#include "kv/integrity/testing/tracked_pool.h"
#include "wire/faults.h"

namespace bulkhead::engine {
namespace {

using kv::integrity::Fault;
using kv::integrity::Injector;
using kv::integrity::Kind;
using kv::integrity::Mode;
using kv::integrity::testing::exchange;
using kv::integrity::testing::TrackedPool;
using ::testing::ElementsAre;
using testing::EventTrace;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

constexpr int32_t kPromptTokens = 60;  // three pages of 16 and a part of the fourth
constexpr size_t kPages = 4;
constexpr wire::TokenId kNext = 9;

// Sequences that go on by one token each, as decode's do.
class Bench {
 public:
  explicit Bench(Mode mode = Mode::kAbort, Injector* injector = nullptr)
      : pool(24, mode, nullptr, injector), guard(make_step_guard(*pool, 4)) {
    if (injector != nullptr) injector->attach(*pool);
    sequences.reserve(4);
  }

  Sequence& add(wire::Slot slot, uint8_t tenant = 0) {
    wire::GenerateRequest request;
    request.id = 100 + slot;
    request.prompt.assign(kPromptTokens, static_cast<wire::TokenId>(slot));
    request.max_tokens = 20;
    request.cache.tenant = {tenant};
    wire::SequenceState state(std::move(request), slot);
    kv::PageTable pages(*pool, state.tokens_max(), kv::label_of(state.cache.tenant));
    EXPECT_TRUE(pages.cover(kPromptTokens + 1));
    state.written = kPromptTokens;
    state.tokens.push_back(1);
    Sequence& added = sequences.emplace_back(Sequence{std::move(state), std::move(pages)});
    guard->wrote(added, 0);
    return added;
  }

  // One step as a pool does it; `meanwhile` is what happens while the model reads.
  void step(const std::function<void()>& meanwhile = nullptr) {
    plan();
    while (!guard->before(plan_, sequences)) {
      settle_all(false);
      plan();
    }
    ++steps_read;
    if (meanwhile) meanwhile();
    guard->after();
    settle_all(true);
  }

  void plan() {
    plan_.clear();
    for (const Sequence& sequence : sequences) {
      plan_.add(slice_of(sequence, 1, model::LogitsFor::kLast));
    }
  }
  // What slice `index` reads instead of its sequence's pages.
  bool before_with(size_t index, const std::vector<kv::PageId>& pages) {
    plan();
    plan_.set_pages(index, pages);
    return guard->before(plan_, sequences);
  }
  bool before() {
    plan();
    return guard->before(plan_, sequences);
  }

  uint64_t count(Kind kind) {
    return pool->integrity().report().mismatches[static_cast<size_t>(kind)];
  }
  // Nobody holds anything any more, and all but what was withdrawn is free.
  void expect_balanced(int32_t quarantined) {
    sequences.clear();
    EXPECT_EQ(pool->counts().quarantined, quarantined);
    EXPECT_EQ(pool->counts().available, pool->counts().total - quarantined);
  }

  TrackedPool pool;
  std::unique_ptr<StepGuard> guard;
  std::vector<Sequence> sequences;
  EventTrace events;
  int steps_read = 0;

 private:
  // Who failed ends; where the step has read, the others get their token.
  void settle_all(bool has_read) {
    std::vector<Sequence> left;
    left.reserve(4);
    for (size_t i = 0; i < sequences.size(); ++i) {
      if (guard->failed(i)) {
        end_refused(sequences[i], events);
        continue;
      }
      if (has_read) {
        sequences[i].state.written += 1;
        wire::TokenEvent token;
        token.token = kNext;
        EXPECT_EQ(settle(sequences[i], std::move(token), events), Settled::kGoesOn);
      }
      left.push_back(std::move(sequences[i]));
    }
    sequences = std::move(left);
  }

  StepPlan plan_{model::StepLimits{.rows_max = 8, .logits_rows_max = 8, .slices_max = 4}};
};

TEST(StepGuard, WhatWasGivenIsReadAndComparedTwice) {
  Bench bench;
  bench.add(1, 7);
  bench.add(2, 8);
  bench.step();
  EXPECT_EQ(bench.events.take(), (Lines{"1: token 9", "2: token 9"}));
  const auto report = bench.pool->integrity().report();
  EXPECT_EQ(report.checks, 2u);
  EXPECT_EQ(report.pages_checked, 4 * kPages);
  EXPECT_THAT(report.events, IsEmpty());
  bench.expect_balanced(0);
}

TEST(StepGuard, WhoFailsBeforeAStepIsNotInItAndTheOthersAre) {
  Bench bench;
  bench.add(1);
  const Sequence& hit = bench.add(2);
  bench.add(3);
  bench.pool->integrity().set_label(hit.pages.pages()[1], 5);
  bench.step();
  EXPECT_EQ(bench.events.take(),
            (Lines{"2: end error", "2: released", "1: token 9", "3: token 9"}));
  EXPECT_EQ(bench.steps_read, 1);
  EXPECT_EQ(bench.count(Kind::kLabel), 1u);
  bench.step();
  EXPECT_EQ(bench.events.take(), (Lines{"1: token 9", "3: token 9"}));
  bench.expect_balanced(1);
}

// The memory that the model is given is what is compared, not the table it was made from.
TEST(StepGuard, APlanThatNamesAnotherPageFails) {
  Bench bench;
  const Sequence& one = bench.add(1);
  const Sequence& other = bench.add(2);
  std::vector<kv::PageId> pages(one.pages.pages().begin(), one.pages.pages().end());
  pages[2] = other.pages.pages()[2];
  EXPECT_FALSE(bench.before_with(0, pages));
  EXPECT_TRUE(bench.guard->failed(0));
  EXPECT_FALSE(bench.guard->failed(1));
  EXPECT_EQ(bench.count(Kind::kTag), 1u);
  EXPECT_THAT(bench.pool->integrity().report().quarantined, ElementsAre(one.pages.pages()[2]));
}

// The token of that step was computed, and nobody gets it.
TEST(StepGuard, TheVerdictAfterAStepComesBeforeItsTokens) {
  Bench bench;
  const Sequence& hit = bench.add(1);
  bench.add(2);
  const kv::PageId page = hit.pages.pages()[0];
  bench.step([&] { bench.pool->quarantine(page); });
  EXPECT_EQ(bench.steps_read, 1);
  EXPECT_EQ(bench.events.take(), (Lines{"1: end error", "1: released", "2: token 9"}));
  EXPECT_EQ(bench.count(Kind::kQuarantined), 1u);
  EXPECT_EQ(bench.pool->integrity().report().events.at(0).phase, kv::integrity::Phase::kAfter);
  bench.expect_balanced(1);
}

TEST(StepGuard, PagesThatChangePlacesAreMetBeforeTheNextStepReads) {
  for (size_t i = 0; i < kPages; ++i) {
    for (size_t j = i + 1; j < kPages; ++j) {
      Bench bench;
      bench.add(1, 7);
      bench.add(2, 7);
      bench.step();
      bench.events.take();
      exchange(bench.sequences[0].pages, i, j);
      bench.step();
      EXPECT_EQ(bench.events.take(), (Lines{"1: end error", "1: released", "2: token 9"}));
      EXPECT_EQ(bench.count(Kind::kMisplaced), 2u) << i << " and " << j;
      const auto report = bench.pool->integrity().report();
      ASSERT_EQ(report.events.size(), 1u);
      EXPECT_EQ(report.events[0].reader, 101u);
      EXPECT_EQ(report.events[0].phase, kv::integrity::Phase::kBefore);
      bench.expect_balanced(0);  // nothing was written to them where they stood
    }
  }
}

TEST(StepGuard, PagesThatChangePlacesWhileAStepReadsCostItsToken) {
  Bench bench;
  Sequence& hit = bench.add(1);
  bench.add(2);
  bench.step([&] { exchange(hit.pages, 0, kPages - 1); });
  EXPECT_EQ(bench.events.take(), (Lines{"1: end error", "1: released", "2: token 9"}));
  EXPECT_EQ(bench.count(Kind::kMisplaced), 2u);
  bench.expect_balanced(2);
}

TEST(StepGuard, APermutedTableIsMetInTheStepThatItIsInjectedInto) {
  Injector injector;
  Bench bench(Mode::kAbort, &injector);
  bench.add(1);
  bench.step();
  bench.events.take();
  injector.order(Fault::kPermutedTable);
  bench.add(2);
  bench.step();
  ASSERT_EQ(injector.done().size(), 1u);
  const bool first = injector.done()[0].reader == 101;
  EXPECT_EQ(bench.events.take(), first ? (Lines{"1: end error", "1: released", "2: token 9"})
                                       : (Lines{"2: end error", "2: released", "1: token 9"}));
  EXPECT_EQ(bench.steps_read, 2);
}

// What a step may have written in its place is withdrawn, and that meets who owns it.
TEST(StepGuard, WhoHoldsAPageThatWasWithdrawnFailsTheNextCheck) {
  Bench bench;
  const Sequence& one = bench.add(1);
  const Sequence& other = bench.add(2);
  bench.add(3);
  bench.step(
      [&] { const_cast<kv::PageId*>(one.pages.pages().data())[3] = other.pages.pages()[3]; });
  EXPECT_EQ(bench.events.take(),
            (Lines{"1: end error", "1: released", "2: token 9", "3: token 9"}));
  bench.step();
  EXPECT_EQ(bench.events.take(), (Lines{"2: end error", "2: released", "3: token 9"}));
  EXPECT_EQ(bench.count(Kind::kTag), 1u);
  EXPECT_EQ(bench.count(Kind::kQuarantined), 1u);
  bench.expect_balanced(2);
}

TEST(StepGuard, ObserveTellsAndGoesOnAndTrustsTheTableNoMore) {
  Bench bench(Mode::kObserve);
  exchange(bench.add(1).pages, 1, 2);
  bench.add(2);
  bench.step();
  EXPECT_EQ(bench.events.take(), (Lines{"1: token 9", "2: token 9"}));
  EXPECT_EQ(bench.count(Kind::kMisplaced), 4u) << "two entries, before and after the step";
  EXPECT_EQ(bench.pool->integrity().report().events.size(), 1u);
  EXPECT_FALSE(bench.sequences[0].pages.trusted());
  EXPECT_TRUE(bench.sequences[1].pages.trusted());
  EXPECT_EQ(bench.pool->counts().quarantined, 0);
}

TEST(StepGuard, NoModeLetsAStepReadOutsideOfThePool) {
  for (const Mode mode : {Mode::kObserve, Mode::kAbort}) {
    Bench bench(mode);
    const Sequence& one = bench.add(1);
    bench.add(2);
    std::vector<kv::PageId> pages(one.pages.pages().begin(), one.pages.pages().end());
    for (const kv::PageId outside : {-1, 24}) {
      pages[3] = outside;
      EXPECT_FALSE(bench.before_with(0, pages));
      EXPECT_TRUE(bench.guard->failed(0));
      EXPECT_FALSE(bench.guard->failed(1));
    }
    pages.pop_back();
    EXPECT_FALSE(bench.before_with(0, pages)) << "fewer pages than the table has";
  }
}

TEST(StepGuard, OffLooksAtNothing) {
  Bench bench(Mode::kOff);
  exchange(bench.add(1).pages, 0, 1);
  bench.step();
  EXPECT_EQ(bench.events.take(), (Lines{"1: token 9"}));
  EXPECT_EQ(bench.pool->integrity().report().checks, 0u);
}

// With the tracker off and an injector, the seam is there and nobody compares.
TEST(StepGuard, OffStillCarriesOutFaultsOfAServerUnderTest) {
  Injector injector;
  Bench bench(Mode::kOff, &injector);
  bench.add(1);
  injector.order(Fault::kPermutedTable);
  bench.step();
  EXPECT_EQ(injector.done().size(), 1u);
  EXPECT_EQ(bench.events.take(), (Lines{"1: token 9"}));
}

TEST(StepGuard, WhoIsRefusedIsToldToTryAgainAndHasNoPages) {
  Bench bench;
  Sequence& sequence = bench.add(1);
  class Endings final : public EventTrace {
   public:
    void on_end(wire::Slot slot, wire::Ending ending) override {
      error = ending.error;
      EventTrace::on_end(slot, std::move(ending));
    }
    std::optional<base::Error> error;
  } endings;
  end_refused(sequence, endings);
  ASSERT_TRUE(endings.error);
  EXPECT_EQ(endings.error->field, wire::kIntegrity);
  EXPECT_THAT(sequence.pages.pages(), IsEmpty());
  EXPECT_EQ(bench.pool->counts().available, bench.pool->counts().total);
}

TEST(StepGuard, APageThatHoldsAnotherTextIsWithdrawnOrDistrusted) {
  for (const Mode mode : {Mode::kAbort, Mode::kObserve}) {
    Bench bench(mode);
    Sequence& sequence = bench.add(1);
    EXPECT_TRUE(bench.guard->holds_own_text(sequence, kPromptTokens));
    const kv::PageId page = sequence.pages.pages()[1];
    bench.pool->integrity().set_stamp(page, {.high = 1, .low = 2});
    EXPECT_EQ(bench.guard->holds_own_text(sequence, kPromptTokens), mode == Mode::kObserve);
    EXPECT_EQ(sequence.pages.trusted(), mode == Mode::kAbort);
    EXPECT_EQ(bench.pool->counts().quarantined, mode == Mode::kAbort ? 1 : 0);
    EXPECT_EQ(bench.count(Kind::kStamp), 1u);
  }
}

TEST(StepGuard, ATokenStampsItsPageWhenThePageIsFull) {
  Bench bench;
  Sequence& sequence = bench.add(1);
  const kv::PageId last = sequence.pages.pages()[3];
  const auto stamp = bench.pool->integrity().stamp(last);
  for (; sequence.state.written < 64; sequence.state.tokens.push_back(1)) {
    EXPECT_EQ(bench.pool->integrity().stamp(last), stamp) << "not yet";
    ++sequence.state.written;
    bench.guard->wrote_token(sequence);
  }
  EXPECT_NE(bench.pool->integrity().stamp(last), stamp);
  EXPECT_TRUE(bench.guard->holds_own_text(sequence, 64));
}

TEST(StepGuard, LogitsThatAreNoNumbersAreCounted) {
  Bench bench;
  bench.guard->not_finite(bench.add(1));
  EXPECT_EQ(bench.count(Kind::kNonFinite), 1u);
  EXPECT_EQ(bench.pool->integrity().report().events.at(0).reader, 101u);
}

}  // namespace
}  // namespace bulkhead::engine
