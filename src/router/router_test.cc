// The router alone, between two scripted ports.
#include "router/router.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "router/step_loop.h"

namespace bulkhead::router {
namespace {

using std::chrono::nanoseconds;
using wire::FinishReason;
using wire::Slot;

// Ports that do what a test tells them in the next step.
struct Script {
  std::vector<std::function<void(wire::PoolEvents&)>> next;

  wire::StepReport play(wire::PoolEvents& events) {
    auto now = std::exchange(next, {});
    for (auto& action : now) action(events);
    return {now.empty() ? wire::StepOutcome::kIdle : wire::StepOutcome::kCommitted, 1, 1};
  }
};

struct FakePrefill final : wire::PrefillPort {
  std::optional<wire::Admission> admit(wire::SequenceState& state, int32_t spare_pages) override {
    if (refuse) return std::nullopt;
    slots[state.id] = state.slot;
    order.push_back(state.id);
    spares.push_back(spare_pages);
    return wire::Admission{cached_tokens};
  }
  std::optional<wire::SequenceState> preempt(Slot slot) override {
    preempted.push_back(slot);
    return wire::SequenceState{};
  }
  void flush_cache() override { ++flushes; }
  wire::StepReport step(wire::PoolEvents& events) override { return script.play(events); }
  void abort(Slot slot, wire::PoolEvents& events) override {
    aborted.push_back(slot);
    events.on_released(slot);
  }
  wire::PageGauges pages() const override { return {10, 4, 3}; }

  bool refuse = false;
  int32_t cached_tokens = 0;
  int flushes = 0;
  std::vector<int32_t> spares;
  std::vector<Slot> preempted;
  std::map<wire::RequestId, Slot> slots;
  std::vector<wire::RequestId> order;
  std::vector<Slot> aborted;
  Script script;
};

struct FakeDecode final : wire::DecodePort {
  bool reserve(const wire::SequenceState& state) override {
    if (full) return false;
    reserved.push_back(state.slot);
    return true;
  }
  void unreserve(Slot slot) override { unreserved.push_back(slot); }
  std::optional<wire::PageGauges> pages() const override { return own_pages; }
  bool prepare(wire::PoolEvents&) override { return --starving < 0; }
  std::optional<wire::SequenceState> preempt(Slot slot) override {
    preempted.push_back(slot);
    return wire::SequenceState{};
  }
  wire::StepReport step(wire::PoolEvents& events) override { return script.play(events); }
  void abort(Slot slot, wire::PoolEvents& events) override {
    aborted.push_back(slot);
    if (release_at_once) events.on_released(slot);
  }

  bool full = false;
  std::vector<Slot> reserved;
  std::vector<Slot> unreserved;
  std::optional<wire::PageGauges> own_pages;
  int starving = 0;  // that often prepare() says no
  std::vector<Slot> preempted;
  bool release_at_once = true;
  std::vector<Slot> aborted;
  Script script;
};

struct Sink final : wire::EventSink {
  void on_prompt(wire::PromptEvent) override {}
  void on_token(wire::TokenEvent event) override {
    EXPECT_EQ(finishes, 0);
    tokens.push_back(event.token);
  }
  void on_finish(wire::FinishEvent event) override {
    ++finishes;
    finish = std::move(event);
  }
  std::vector<wire::TokenId> tokens;
  wire::FinishEvent finish;
  int finishes = 0;
};

struct Bench {
  std::shared_ptr<Sink> submit(wire::RequestId id, std::optional<nanoseconds> deadline = {},
                               wire::GenerateRequest request = {}) {
    auto sink = std::make_shared<Sink>();
    request.id = id;
    request.prompt = {1, 2, 3};
    request.max_tokens = 5;
    request.deadline = deadline;
    last = router.submit(std::move(request), sink);
    return sink;
  }
  // Brings an admitted request to decoding, with its first token out.
  void to_decoding(wire::RequestId id) {
    const Slot slot = prefill.slots.at(id);
    prefill.script.next.push_back([slot](wire::PoolEvents& events) {
      events.on_token(slot, token(41));
      events.on_offered(slot);
    });
    router.step();
    decode.script.next.push_back([slot](wire::PoolEvents& events) { events.on_accepted(slot); });
    router.step();
  }
  void end(wire::RequestId id, wire::Ending ending) {
    const Slot slot = prefill.slots.at(id);
    decode.script.next.push_back([slot, ending](wire::PoolEvents& events) {
      events.on_end(slot, ending);
      events.on_released(slot);
    });
    router.step();
  }
  static wire::TokenEvent token(wire::TokenId id) {
    wire::TokenEvent event;
    event.token = id;
    return event;
  }

  FakePrefill prefill;
  FakeDecode decode;
  base::ManualClock clock;
  telemetry::Registry registry;
  Router router{{.context_tokens = 100,
                 .cache_tokens = 80,
                 .vocabulary_size = 50,
                 .running_max = 2,
                 .queued_max = 2},
                {prefill, decode, clock, registry}};
  base::Status last;
};

TEST(Router, CarriesARequestFromSubmissionToItsTerminalRecord) {
  Bench bench;
  bench.clock.advance(nanoseconds(100));
  auto sink = bench.submit(7);
  ASSERT_TRUE(bench.last.ok());
  bench.clock.advance(nanoseconds(10));
  bench.router.step();
  bench.clock.advance(nanoseconds(20));
  bench.to_decoding(7);
  bench.clock.advance(nanoseconds(40));
  bench.end(7, {FinishReason::kStop, 9, std::nullopt});
  EXPECT_EQ(sink->tokens, (std::vector<wire::TokenId>{41}));
  ASSERT_EQ(sink->finishes, 1);
  EXPECT_EQ(sink->finish.id, 7u);
  EXPECT_EQ(sink->finish.reason, FinishReason::kStop);
  EXPECT_EQ(sink->finish.stop_id, 9);
  EXPECT_EQ(sink->finish.prompt_tokens, 3);
  EXPECT_EQ(sink->finish.cached_tokens, 0);
  EXPECT_EQ(sink->finish.completion_tokens, 1);
  EXPECT_EQ(sink->finish.queue_time, nanoseconds(10));
  EXPECT_EQ(sink->finish.prefill_time, nanoseconds(20));
  EXPECT_EQ(sink->finish.decode_time, nanoseconds(40));
}

// C095
TEST(Router, RefusesAtOnceWhatCanNeverFit) {
  Bench bench;
  wire::GenerateRequest request;
  request.id = 1;
  request.prompt.assign(60, 1);
  request.max_tokens = 21;
  auto sink = std::make_shared<Sink>();
  const auto status = bench.router.submit(std::move(request), sink);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().field, "max_tokens");
  bench.router.step();
  EXPECT_TRUE(bench.prefill.order.empty());
  EXPECT_EQ(sink->finishes, 0);
}

// C100
TEST(Router, QueuesWhatDoesNotFitNowAndRefusesWhatDoesNotFitTheQueue) {
  Bench bench;
  bench.prefill.refuse = true;
  std::vector<std::shared_ptr<Sink>> sinks;
  for (wire::RequestId id = 1; id <= 4; ++id) {
    sinks.push_back(bench.submit(id));
    EXPECT_TRUE(bench.last.ok()) << id;
  }
  bench.submit(5);
  ASSERT_FALSE(bench.last.ok());
  EXPECT_EQ(bench.last.error().code, base::ErrorCode::kResourceExhausted);
  bench.router.step();
  EXPECT_EQ(bench.router.status().waiting, 4u);
  bench.prefill.refuse = false;
  bench.router.step();
  EXPECT_EQ(bench.prefill.order, (std::vector<wire::RequestId>{1, 2}));  // running_max
  EXPECT_EQ(bench.router.status().running, 2u);
  EXPECT_EQ(bench.router.status().waiting, 2u);
  bench.to_decoding(1);
  bench.end(1, {FinishReason::kLength, -1, std::nullopt});
  bench.router.step();
  EXPECT_EQ(bench.prefill.order, (std::vector<wire::RequestId>{1, 2, 3}));
  bench.submit(6);
  EXPECT_TRUE(bench.last.ok());
}

TEST(Router, CancellationReachesARequestInEveryState) {
  Bench bench;
  auto decoding = bench.submit(1);
  auto prefilling = bench.submit(2);
  auto queued = bench.submit(3);
  bench.router.step();
  bench.to_decoding(1);
  for (const wire::RequestId id : {3u, 2u, 1u, 99u}) bench.router.cancel(id);
  bench.router.cancel(2);
  bench.router.step();
  for (const auto& sink : {decoding, prefilling, queued}) {
    EXPECT_EQ(sink->finishes, 1);
    EXPECT_EQ(sink->finish.reason, FinishReason::kCancelled);
  }
  EXPECT_EQ(decoding->finish.completion_tokens, 1);
  EXPECT_EQ(queued->finish.completion_tokens, 0);
  EXPECT_EQ(bench.prefill.aborted, (std::vector<Slot>{bench.prefill.slots[2]}));
  EXPECT_EQ(bench.decode.aborted, (std::vector<Slot>{bench.prefill.slots[1]}));
  EXPECT_EQ(bench.router.status().running, 0u);
  EXPECT_EQ(bench.router.status().waiting, 0u);
}

// C074
TEST(Router, ATransferringRequestIsTakenBackFromDecode) {
  Bench bench;
  auto sink = bench.submit(1);
  bench.router.step();
  const Slot slot = bench.prefill.slots[1];
  bench.prefill.script.next.push_back([slot](wire::PoolEvents& events) {
    events.on_token(slot, Bench::token(4));
    events.on_offered(slot);
  });
  bench.router.step();
  bench.router.cancel(1);
  bench.router.step();
  EXPECT_EQ(bench.decode.aborted, (std::vector<Slot>{slot}));
  EXPECT_EQ(sink->finishes, 1);
}

TEST(Router, AnEarlyEndWaitsUntilThePoolsHaveLetGo) {
  Bench bench;
  bench.decode.release_at_once = false;
  auto sink = bench.submit(1);
  bench.router.step();
  bench.to_decoding(1);
  bench.router.cancel(1);
  bench.router.step();
  EXPECT_EQ(sink->finishes, 0);
  EXPECT_EQ(bench.router.status().running, 1u);
  const Slot slot = bench.prefill.slots[1];
  bench.decode.script.next.push_back(
      [slot](wire::PoolEvents& events) { events.on_released(slot); });
  bench.router.step();
  EXPECT_EQ(sink->finishes, 1);
  EXPECT_EQ(sink->finish.reason, FinishReason::kCancelled);
}

// C105
TEST(Router, DeadlinesEndRequestsWhereverTheyAre) {
  Bench bench;
  auto decoding = bench.submit(1, nanoseconds(1000));
  auto lasting = bench.submit(2, nanoseconds(5000));
  auto queued = bench.submit(3, nanoseconds(900));
  bench.router.step();
  bench.to_decoding(1);
  bench.clock.advance(nanoseconds(899));
  bench.router.step();
  EXPECT_EQ(queued->finishes, 0);
  bench.clock.advance(nanoseconds(1));
  bench.router.step();
  EXPECT_EQ(queued->finish.reason, FinishReason::kDeadline);
  EXPECT_EQ(decoding->finishes, 0);
  bench.clock.advance(nanoseconds(100));
  bench.router.step();
  EXPECT_EQ(decoding->finish.reason, FinishReason::kDeadline);
  EXPECT_EQ(lasting->finishes, 0);
  bench.clock.advance(nanoseconds(4000));
  bench.router.step();
  EXPECT_EQ(lasting->finish.reason, FinishReason::kDeadline);
}

TEST(Router, AnErrorOfARequestIsItsTerminalRecord) {
  Bench bench;
  auto sink = bench.submit(1);
  bench.router.step();
  bench.to_decoding(1);
  bench.end(1, {FinishReason::kError, -1, base::Error{base::ErrorCode::kInternal, "broken", {}}});
  EXPECT_EQ(sink->finish.reason, FinishReason::kError);
  ASSERT_TRUE(sink->finish.error.has_value());
  EXPECT_EQ(sink->finish.error->message, "broken");
}

TEST(Router, AdmitsByPriorityThenByArrival) {
  Bench bench;
  bench.prefill.refuse = true;
  const auto with_priority = [](int32_t priority) {
    wire::GenerateRequest request;
    request.priority = priority;
    return request;
  };
  bench.submit(1, {}, with_priority(0));
  bench.submit(2, {}, with_priority(5));
  bench.submit(3, {}, with_priority(-1));
  bench.submit(4, {}, with_priority(0));
  bench.router.step();
  bench.prefill.refuse = false;
  bench.router.step();
  EXPECT_EQ(bench.prefill.order, (std::vector<wire::RequestId>{3, 1}));
  EXPECT_EQ(bench.prefill.spares, (std::vector<int32_t>{0, 1}));  // one for each that runs
}

TEST(Router, WhenTheCacheIsFullTheYoungestGivesWayAndRunsAgainLater) {
  Bench bench;
  auto older = bench.submit(1);
  auto younger = bench.submit(2);
  bench.prefill.cached_tokens = 2;
  bench.router.step();
  bench.to_decoding(1);
  bench.to_decoding(2);
  bench.prefill.refuse = true;  // no room for it yet
  bench.decode.starving = 1;
  bench.router.step();
  EXPECT_EQ(bench.decode.preempted, (std::vector<Slot>{bench.prefill.slots[2]}));
  EXPECT_TRUE(bench.prefill.preempted.empty());
  EXPECT_EQ(bench.router.status().running, 1u);
  EXPECT_EQ(bench.router.status().waiting, 1u);
  bench.router.cancel(2);  // queued again, it can be cancelled like any other
  bench.router.step();
  ASSERT_EQ(younger->finishes, 1);
  EXPECT_EQ(younger->finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(younger->finish.preemptions, 1);
  EXPECT_EQ(younger->finish.completion_tokens, 1);
  EXPECT_EQ(younger->finish.cached_tokens, 2);
  EXPECT_EQ(older->finishes, 0);
}

TEST(Router, APromptBeingReadGivesWayToAnOlderAnswer) {
  Bench bench;
  bench.submit(1);
  bench.router.step();
  bench.to_decoding(1);
  bench.submit(2);
  bench.router.step();
  bench.prefill.refuse = true;
  bench.decode.starving = 1;
  bench.router.step();
  EXPECT_EQ(bench.prefill.preempted, (std::vector<Slot>{bench.prefill.slots[2]}));
  EXPECT_TRUE(bench.decode.preempted.empty());
}

TEST(Router, AFollowerWaitsForItsLeadersPromptAndOthersPassIt) {
  Bench bench;
  wire::GenerateRequest follower;
  follower.leader = 1;
  bench.submit(1);
  bench.submit(2, {}, follower);
  bench.submit(3);
  bench.router.step();
  EXPECT_EQ(bench.prefill.order, (std::vector<wire::RequestId>{1, 3}));
  bench.to_decoding(1);
  bench.end(1, {FinishReason::kLength, -1, std::nullopt});
  bench.router.step();
  EXPECT_EQ(bench.prefill.order, (std::vector<wire::RequestId>{1, 3, 2}));
}

TEST(Router, AFollowerDoesNotOutwaitALeaderThatEnded) {
  Bench bench;
  wire::GenerateRequest follower;
  follower.leader = 1;
  bench.submit(1);
  bench.submit(2, {}, follower);
  bench.router.cancel(1);
  bench.router.step();
  EXPECT_EQ(bench.prefill.order, (std::vector<wire::RequestId>{2}));
}

TEST(Router, AsksDecodeForItsPromiseBeforePrefillAndGivesItBackWhenPrefillCannot) {
  Bench bench;
  bench.decode.full = true;
  auto sink = bench.submit(1);
  bench.router.step();
  EXPECT_TRUE(bench.prefill.order.empty()) << "no promise, no prefill";
  EXPECT_EQ(bench.router.status().waiting, 1u);
  bench.decode.full = false;
  bench.prefill.refuse = true;
  bench.router.step();
  ASSERT_EQ(bench.decode.reserved.size(), 1u);
  EXPECT_EQ(bench.decode.unreserved, bench.decode.reserved);
  bench.prefill.refuse = false;
  bench.router.step();
  EXPECT_EQ(bench.decode.reserved.size(), 2u);
  EXPECT_EQ(bench.decode.unreserved.size(), 1u) << "it keeps what it was promised";
  // Whoever ends in prefill never takes the promise.
  bench.router.cancel(1);
  bench.router.step();
  EXPECT_EQ(bench.decode.unreserved.size(), 2u);
  EXPECT_EQ(sink->finish.reason, FinishReason::kCancelled);
}

TEST(Router, ShowsThePagesOfEachPoolWhereDecodeHasItsOwn) {
  Bench bench;
  EXPECT_EQ(bench.router.status().pages.total, 10);
  EXPECT_FALSE(bench.router.status().prefill_pages.has_value());
  bench.decode.own_pages = wire::PageGauges{20, 15, 0};
  const wire::GeneratorStatus status = bench.router.status();
  EXPECT_EQ(status.pages.total, 20);
  EXPECT_EQ(status.pages.used(), 5);
  ASSERT_TRUE(status.prefill_pages.has_value());
  EXPECT_EQ(status.prefill_pages->total, 10);
}

TEST(Router, FlushesTheCacheBetweenSteps) {
  Bench bench;
  bench.router.flush_cache();
  bench.router.flush_cache();
  EXPECT_EQ(bench.prefill.flushes, 0);
  bench.router.step();
  bench.router.step();
  EXPECT_EQ(bench.prefill.flushes, 1);
}

TEST(Router, DrainingFinishesWhatWasAcceptedAndRefusesTheRest) {
  Bench bench;
  auto sink = bench.submit(1);
  bench.router.drain(nanoseconds(1000));
  bench.submit(2);
  ASSERT_FALSE(bench.last.ok());
  EXPECT_EQ(bench.last.error().code, base::ErrorCode::kUnavailable);
  bench.router.step();
  EXPECT_TRUE(bench.router.status().draining);
  EXPECT_FALSE(bench.router.drained());
  bench.to_decoding(1);
  bench.end(1, {FinishReason::kLength, -1, std::nullopt});
  EXPECT_EQ(sink->finish.reason, FinishReason::kLength);
  EXPECT_TRUE(bench.router.drained());
}

// C203
TEST(Router, TheEndOfTheDrainEndsWhatIsLeft) {
  Bench bench;
  auto running = bench.submit(1);
  auto second = bench.submit(2);
  auto queued = bench.submit(3);
  bench.router.step();
  bench.to_decoding(1);
  bench.router.drain(nanoseconds(1000));
  bench.clock.advance(nanoseconds(999));
  bench.router.step();
  EXPECT_EQ(running->finishes, 0);
  bench.clock.advance(nanoseconds(1));
  bench.router.step();
  for (const auto& sink : {running, second, queued}) {
    ASSERT_EQ(sink->finishes, 1);
    EXPECT_EQ(sink->finish.reason, FinishReason::kCancelled);
    ASSERT_TRUE(sink->finish.error.has_value());
    EXPECT_EQ(sink->finish.error->code, base::ErrorCode::kUnavailable);
  }
  EXPECT_TRUE(bench.router.drained());
}

TEST(Router, StatusShowsPagesAndProgress) {
  Bench bench;
  bench.clock.advance(nanoseconds(500));
  bench.router.step();
  const wire::GeneratorStatus status = bench.router.status();
  EXPECT_EQ(status.pages.total, 10);
  EXPECT_EQ(status.pages.free, 4);
  EXPECT_EQ(status.pages.cached, 3);
  EXPECT_EQ(status.last_progress, nanoseconds(500));
  EXPECT_FALSE(status.draining);
}

TEST(Router, CountsStepsThatRanAndNotIdleOnes) {
  Bench bench;
  bench.router.step();
  bench.submit(1);
  bench.router.step();
  bench.to_decoding(1);
  const std::string text = bench.registry.expose();
  EXPECT_NE(text.find("bulkhead_step_seconds_count{pool=\"prefill\"} 1\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("bulkhead_step_seconds_count{pool=\"decode\"} 1\n"), std::string::npos);
}

TEST(StepLoop, TicksWhileIdleAndStops) {
  Bench bench;
  base::SteadyClock clock;
  Router router{bench.router.limits(), {bench.prefill, bench.decode, clock, bench.registry}};
  StepLoop loop(router, clock);
  const nanoseconds start = clock.now();
  while (router.status().last_progress <= start) std::this_thread::yield();
  loop.stop(std::chrono::seconds(60));
  EXPECT_TRUE(router.drained());
}

}  // namespace
}  // namespace bulkhead::router
