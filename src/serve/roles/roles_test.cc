// Gateway, prefill and decode as one deployment: right answers whatever dies, and nothing left
// behind. The model turns any foreign, stale or missing page into a wrong token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "serve/roles/testing/roles_rig.h"
#include "wire/faults.h"

namespace bulkhead::serve::roles {
namespace {

using ::testing::HasSubstr;
using testing::kRigContext;
using testing::rig_answer;
using testing::rig_prompt;
using testing::RigOptions;
using testing::RolesRig;
using wire::FinishReason;
using Tokens = std::vector<wire::TokenId>;

// Right to the end, or the start of what is right and then an error that says "try again".
void expect_right_or_retriable(const RolesRig::Running& running, const Tokens& expected) {
  ASSERT_EQ(running.sink->finishes(), 1);
  EXPECT_EQ(running.sink->tokens_after_finish(), 0);
  const Tokens tokens = running.sink->tokens();
  const auto finish = running.sink->finish();
  if (finish->reason == FinishReason::kLength) {
    EXPECT_EQ(tokens, expected);
    return;
  }
  ASSERT_EQ(finish->reason, FinishReason::kError);
  ASSERT_TRUE(finish->error.has_value());
  EXPECT_TRUE(wire::is_fault(*finish->error)) << finish->error->message;
  ASSERT_LT(tokens.size(), expected.size());
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin()));
}

void expect_right(const RolesRig::Running& running, const Tokens& expected) {
  ASSERT_EQ(running.sink->finishes(), 1);
  EXPECT_EQ(running.sink->tokens(), expected);
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kLength);
}

void expect_alive(RolesRig& rig, uint64_t seed) {
  const auto prompt = rig_prompt(seed, 50);
  const auto running = rig.submit(prompt, 5);
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 10000)) << rig.log();
  expect_right(running, rig_answer(prompt, 5));
}

// C087
TEST(Roles, AnAnswerComesFromTwoWorkersAsFromOne) {
  RolesRig rig;
  ASSERT_TRUE(rig.join()) << rig.log();
  const auto prompt = rig_prompt(1, 100);
  const auto running = rig.submit(prompt, 20);
  ASSERT_TRUE(running.status.ok());
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000)) << rig.log();
  expect_right(running, rig_answer(prompt, 20));
  EXPECT_EQ(running.sink->finish()->prompt_tokens, 100);
  EXPECT_EQ(running.sink->finish()->completion_tokens, 20);
  EXPECT_EQ(rig.balance(), "");
}

// The banner of a gateway that is complete tells them.
TEST(Roles, MembersAreToldAsSoonAsTheyAreThere) {
  RolesRig rig;
  ASSERT_TRUE(rig.run_until([&] { return rig.gateway()->fleet.is_complete(); }, 2000));
  for (const MemberStatus& member : rig.gateway()->fleet.members()) {
    EXPECT_TRUE(member.present) << member.label;
    EXPECT_EQ(member.http, member.label + "/http");
  }
  rig.kill_decode(0);
  ASSERT_TRUE(rig.run_until([&] { return !rig.gateway()->fleet.is_complete(); }, 2000));
  EXPECT_FALSE(rig.gateway()->fleet.members()[1].present);
}

TEST(Roles, AWorkerTellsWhatItHasAndWhenItLastMadeAStep) {
  RolesRig rig;
  ASSERT_TRUE(rig.join()) << rig.log();
  const DecodeWorker& worker = rig.decode()->worker;
  const auto running = rig.submit(rig_prompt(5, 60), 40);
  ASSERT_TRUE(rig.run_until([&] { return worker.status().pages.used() > 0; }, 5000)) << rig.log();
  EXPECT_EQ(worker.status().running, 1u);
  EXPECT_FALSE(worker.status().draining);
  const base::Nanoseconds earlier = worker.status().last_progress;
  rig.step();
  EXPECT_GT(worker.status().last_progress, earlier);
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000)) << rig.log();
  EXPECT_EQ(rig.balance(), "");
  EXPECT_EQ(worker.status().running, 0u);
  EXPECT_EQ(worker.status().pages.used(), 0);
  rig.decode()->worker.drain();
  EXPECT_TRUE(worker.status().draining);
}

// C084: more requests than pages, places, windows and slots, one after another.
TEST(Roles, ManyRequestsOverSeveralWorkersAreAllRight) {
  RolesRig rig(
      {.prefill_workers = 2, .decode_workers = 2, .prefill_pages = 24, .decode_pages = 24});
  ASSERT_TRUE(rig.join()) << rig.log();
  std::vector<RolesRig::Running> running;
  std::vector<Tokens> expected;
  for (uint64_t i = 0; i < 60; ++i) {
    const auto prompt = rig_prompt(i % 40, 3 + (i * 37) % 150);
    const auto tokens = static_cast<int32_t>(1 + (i * 13) % 40);
    running.push_back(rig.submit(prompt, tokens));
    ASSERT_TRUE(running.back().status.ok()) << running.back().status.error().message;
    expected.push_back(rig_answer(prompt, tokens));
  }
  const auto all_done = [&] {
    return std::all_of(running.begin(), running.end(), [](const auto& r) { return r.finished(); });
  };
  ASSERT_TRUE(rig.run_until(all_done, 60000)) << rig.log();
  for (size_t i = 0; i < running.size(); ++i) expect_right(running[i], expected[i]);
  EXPECT_EQ(rig.balance(), "");
}

// C088
TEST(Roles, OneTokenNeedsNoDecodeWorkerAndTwoAreTwo) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  for (const int32_t tokens : {1, 2}) {
    const auto prompt = rig_prompt(static_cast<uint64_t>(tokens), 40);
    const auto running = rig.submit(prompt, tokens);
    ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000));
    expect_right(running, rig_answer(prompt, tokens));
    EXPECT_EQ(rig.balance(), "");
  }
}

// C087
TEST(Roles, AnAnswerMayEndWithItsFirstTokenInPrefill) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  wire::GenerateRequest request;
  request.prompt = rig_prompt(3, 40);
  request.max_tokens = 10;
  request.sampling.temperature = 0.0f;
  request.stop_ids = {rig_answer(request.prompt, 1)[0]};
  const auto running = rig.submit(std::move(request));
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000));
  EXPECT_TRUE(running.sink->tokens().empty());
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kStop);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Roles, PromptsAreScoredByPrefill) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  wire::GenerateRequest request;
  request.prompt = rig_prompt(3, 40);
  request.max_tokens = 0;
  request.prompt_logprobs = 0;
  const auto running = rig.submit(std::move(request));
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000)) << rig.log();
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kLength);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Roles, APromptThatWasComputedGoesToItsWorkerAndIsTakenFromItsCache) {
  RolesRig rig({.prefill_workers = 3});
  ASSERT_TRUE(rig.join());
  const auto prompt = rig_prompt(8, 100);
  for (int i = 0; i < 3; ++i) {
    const auto running = rig.submit(prompt, 4);
    ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000));
    expect_right(running, rig_answer(prompt, 4));
    rig.run(100);
    EXPECT_EQ(running.sink->finish()->cached_tokens, i == 0 ? 0 : 96) << i;
  }
  EXPECT_EQ(rig.balance(), "");
}

enum class Victim { kPrefill, kDecode, kGateway };

// What a kill at a step leaves behind: runs a few requests, kills, starts again.
void kill_at(Victim victim, int step, const RigOptions& options) {
  SCOPED_TRACE(step);
  RolesRig rig(options);
  ASSERT_TRUE(rig.join()) << rig.log();
  std::vector<Tokens> prompts = {rig_prompt(1, 90), rig_prompt(2, 33), rig_prompt(3, 140)};
  std::vector<RolesRig::Running> running;
  for (const Tokens& prompt : prompts) running.push_back(rig.submit(prompt, 12));
  rig.run(step);
  switch (victim) {
    case Victim::kPrefill:
      rig.kill_prefill(0);
      break;
    case Victim::kDecode:
      rig.kill_decode(0);
      break;
    case Victim::kGateway:
      rig.kill_gateway();
      break;
  }
  rig.run(20);
  if (victim == Victim::kGateway) {
    // Nobody asks for it any more: what the workers had is free without anybody's word.
    EXPECT_EQ(rig.balance(), "");
    rig.start_gateway();
  } else {
    victim == Victim::kPrefill ? rig.start_prefill(0) : rig.start_decode(0);
    const auto all_done = [&] {
      return std::all_of(running.begin(), running.end(),
                         [](const auto& r) { return r.finished(); });
    };
    ASSERT_TRUE(rig.run_until(all_done, 20000)) << rig.log();
    for (size_t i = 0; i < running.size(); ++i) {
      expect_right_or_retriable(running[i], rig_answer(prompts[i], 12));
    }
  }
  ASSERT_TRUE(rig.join()) << rig.log();
  expect_alive(rig, 77);
  EXPECT_EQ(rig.balance(), "");
}

// At every step of three requests on their way.
TEST(Roles, APrefillWorkerMayDieAtAnyStep) {
  for (int step = 0; step < 40; step += 1) kill_at(Victim::kPrefill, step, {});
}
// C053
TEST(Roles, ADecodeWorkerMayDieAtAnyStep) {
  for (int step = 0; step < 40; step += 1) kill_at(Victim::kDecode, step, {});
}
TEST(Roles, TheGatewayMayDieAtAnyStep) {
  for (int step = 0; step < 40; step += 2) kill_at(Victim::kGateway, step, {});
}

TEST(Roles, WhatNobodyHasSeenRunsAgainElsewhere) {
  for (const bool prefill_dies : {true, false}) {
    RolesRig rig({.prefill_workers = 2, .decode_workers = 2});
    ASSERT_TRUE(rig.join());
    const auto prompt = rig_prompt(4, 200);
    const auto running = rig.submit(prompt, 10);
    rig.run(3);
    ASSERT_TRUE(running.sink->tokens().empty());
    const size_t had_prompt = rig.prefill(0)->worker.attempts() > 0 ? 0 : 1;
    const size_t had_rest = rig.decode(0)->worker.attempts() > 0 ? 0 : 1;
    prefill_dies ? rig.kill_prefill(had_prompt) : rig.kill_decode(had_rest);
    ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 10000)) << rig.log();
    expect_right(running, rig_answer(prompt, 10));
    EXPECT_EQ(rig.balance(), "");
  }
}

TEST(Roles, WhatWasSeenIsNotRunAgain) {
  RolesRig rig({.decode_workers = 2});
  ASSERT_TRUE(rig.join());
  const auto prompt = rig_prompt(4, 60);
  const auto running = rig.submit(prompt, 50);
  ASSERT_TRUE(rig.run_until([&] { return running.sink->tokens().size() > 3; }, 5000));
  rig.kill_decode(rig.decode(0)->worker.attempts() > 0 ? 0 : 1);
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000));
  const auto finish = running.sink->finish();
  ASSERT_EQ(finish->reason, FinishReason::kError);
  EXPECT_EQ(finish->error->field, wire::kWorkerLost);
  expect_right_or_retriable(running, rig_answer(prompt, 50));
  EXPECT_EQ(rig.balance(), "");
}

// Twice at most: a request that kills whoever has it does not go round for ever.
TEST(Roles, ARequestRunsAgainTwiceAtMost) {
  RolesRig rig({.prefill_workers = 5});
  ASSERT_TRUE(rig.join());
  const auto running = rig.submit(rig_prompt(4, 200), 10);
  int deaths = 0;
  const auto kill_holder = [&] {
    for (size_t i = 0; i < 5; ++i) {
      if (rig.prefill(i) == nullptr || rig.prefill(i)->worker.attempts() == 0) continue;
      rig.kill_prefill(i);
      ++deaths;
    }
    return running.finished();
  };
  ASSERT_TRUE(rig.run_until(kill_holder, 10000)) << rig.log();
  EXPECT_EQ(deaths, 3);
  EXPECT_EQ(running.sink->finish()->error->field, wire::kWorkerLost);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Roles, AStoppedWorkerIsRetiredAndItsLateWordsAreNobodys) {
  for (const bool prefill_stops : {true, false}) {
    RolesRig rig({.prefill_workers = 2, .decode_workers = 2});
    ASSERT_TRUE(rig.join());
    const auto prompt = rig_prompt(4, 200);
    const auto running = rig.submit(prompt, 30);
    rig.run(4);
    bool& stopped = prefill_stops
                        ? rig.prefill(rig.prefill(0)->worker.attempts() > 0 ? 0 : 1)->stopped
                        : rig.decode(rig.decode(0)->worker.attempts() > 0 ? 0 : 1)->stopped;
    stopped = true;
    ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 20000)) << rig.log();
    expect_right_or_retriable(running, rig_answer(prompt, 30));
    stopped = false;
    ASSERT_TRUE(rig.join()) << rig.log();
    expect_alive(rig, 5);
    EXPECT_EQ(rig.balance(), "");
  }
}

// C075, C076, C077: whenever a client leaves, and nobody's timeout has to pass for it.
TEST(Roles, ARequestMayBeCancelledAtAnyStep) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(step);
    const auto prompt = rig_prompt(100 + static_cast<uint64_t>(step), 100);
    const auto running = rig.submit(prompt, 30);
    rig.run(step);
    rig.gateway()->router.cancel(running.id);
    ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 200)) << rig.log();
    ASSERT_TRUE(rig.run_until([&] { return rig.gateway()->fleet.flights() == 0; }, 400));
    const Tokens tokens = running.sink->tokens();
    const Tokens expected = rig_answer(prompt, 30);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin()));
  }
  expect_alive(rig, 5);
  EXPECT_EQ(rig.balance(), "");
}

// C075
TEST(Roles, AStormOfCancellationsLeavesNothing) {
  RolesRig rig({.prefill_workers = 2, .decode_workers = 2});
  ASSERT_TRUE(rig.join());
  std::vector<RolesRig::Running> running;
  for (uint64_t i = 0; i < 64; ++i) running.push_back(rig.submit(rig_prompt(i, 60), 40));
  rig.run(25);
  for (const auto& one : running) rig.gateway()->router.cancel(one.id);
  ASSERT_TRUE(rig.run_until([&] { return rig.gateway()->fleet.flights() == 0; }, 2000));
  expect_alive(rig, 900);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Roles, ADrainingWorkerFinishesWhatItHasGetsNothingNewAndTakesItsLeave) {
  RolesRig rig({.prefill_workers = 2, .decode_workers = 2});
  ASSERT_TRUE(rig.join());
  const auto prompt = rig_prompt(4, 60);
  const auto running = rig.submit(prompt, 60);
  ASSERT_TRUE(rig.run_until([&] { return running.sink->tokens().size() > 3; }, 5000));
  const size_t busy = rig.decode(0)->worker.attempts() > 0 ? 0 : 1;
  rig.decode(busy)->worker.drain();
  rig.run(5);
  for (uint64_t i = 0; i < 4; ++i) {
    const auto other = rig.submit(rig_prompt(20 + i, 50), 3);
    ASSERT_TRUE(rig.run_until(
        [&] {
          EXPECT_LE(rig.decode(busy)->worker.attempts(), 1u) << "it was given something new";
          return other.finished();
        },
        10000));
    expect_right(other, rig_answer(rig_prompt(20 + i, 50), 3));
  }
  ASSERT_FALSE(running.finished());
  EXPECT_FALSE(rig.decode(busy)->worker.has_left());
  ASSERT_TRUE(rig.run_until([&] { return rig.decode(busy)->worker.has_left(); }, 5000))
      << rig.log();
  // Gone at once, as it would be in a process of its own.
  rig.kill_decode(busy);
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 100)) << "its last words are out";
  expect_right(running, rig_answer(prompt, 60));
  rig.run(100);
  const MemberStatus left = rig.gateway()->fleet.members()[2 + busy];
  EXPECT_FALSE(left.present);
  EXPECT_EQ(left.losses, 0u);
  EXPECT_THAT(rig.log(), HasSubstr("a worker left"));
  EXPECT_THAT(rig.log(), HasSubstr("a decode worker left"));
  EXPECT_THAT(rig.log(), ::testing::Not(HasSubstr("lost")));
  rig.start_decode(busy);
  ASSERT_TRUE(rig.join());
  EXPECT_EQ(rig.balance(), "");
}

// Told to go at once: what it has ends, and everybody knows why.
TEST(Roles, AWorkerThatLeavesNowTellsThatItDoes) {
  for (const bool prefill_leaves : {true, false}) {
    RolesRig rig;
    ASSERT_TRUE(rig.join());
    const auto prompt = rig_prompt(4, 200);
    const auto running = rig.submit(prompt, 60);
    ASSERT_TRUE(rig.run_until(
        [&] {
          return rig.prefill(0)->link.in_transit() > 0 && rig.decode(0)->link.in_transit() > 0;
        },
        500));
    rig.run(2);
    Worker& worker =
        prefill_leaves ? static_cast<Worker&>(rig.prefill(0)->worker) : rig.decode(0)->worker;
    worker.leave_now();
    ASSERT_TRUE(rig.run_until([&] { return worker.has_left(); }, 500)) << rig.log();
    prefill_leaves ? rig.kill_prefill(0) : rig.kill_decode(0);
    ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 2000));
    expect_right_or_retriable(running, rig_answer(prompt, 60));
    EXPECT_THAT(rig.log(),
                HasSubstr(prefill_leaves ? "a prefill worker left" : "a decode worker left"));
    prefill_leaves ? rig.start_prefill(0) : rig.start_decode(0);
    ASSERT_TRUE(rig.join());
    EXPECT_EQ(rig.balance(), "");
  }
}

TEST(Roles, AGatewayTakesItsLeaveAndTheNextOneIsTaken) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  rig.gateway()->fleet.leave();
  ASSERT_TRUE(rig.run_until([&] { return rig.gateway()->fleet.has_left(); }, 100));
  rig.kill_gateway();
  rig.run(5);
  EXPECT_FALSE(rig.prefill(0)->worker.has_gateway());
  EXPECT_FALSE(rig.decode(0)->worker.has_gateway());
  EXPECT_THAT(rig.log(), HasSubstr("the gateway left"));
  rig.start_gateway();
  ASSERT_TRUE(rig.join());
  expect_alive(rig, 3);
}

// A try that had to wait for pages says nothing about the one that gets its slot.
TEST(Roles, ARequestIsNotRefusedForOneThatWasThereBeforeIt) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  kv::PagePool& pool = *rig.prefill(0)->pages;
  kv::PageTable taken(pool, 20 * 16);
  ASSERT_TRUE(taken.cover(20 * 16));
  const auto large = rig.submit(rig_prompt(1, 300), 4);
  rig.run(50);
  ASSERT_EQ(rig.prefill(0)->worker.attempts(), 1u);
  rig.gateway()->router.cancel(large.id);
  ASSERT_TRUE(rig.run_until([&] { return large.finished(); }, 500));
  ASSERT_TRUE(rig.run_until([&] { return rig.prefill(0)->worker.attempts() == 0; }, 500));
  expect_alive(rig, 2);
  taken = {};
  EXPECT_EQ(rig.balance(), "");
}

// However long it waits for room.
TEST(Roles, ThePromptOfARequestThatWaitsIsHashedOnce) {
  RolesRig rig({.sequences_max = 1});
  ASSERT_TRUE(rig.join());
  const auto first = rig.submit(rig_prompt(1, 100), 60);
  const auto second = rig.submit(rig_prompt(2, 100), 1);
  rig.run(20);
  ASSERT_FALSE(first.finished());
  const uint64_t hashed = rig.gateway()->fleet.affinity().pages_hashed();
  EXPECT_LE(hashed, 2u * 6);
  ASSERT_TRUE(rig.run_until([&] { return first.finished() && second.finished(); }, 5000));
  EXPECT_EQ(rig.gateway()->fleet.affinity().pages_hashed(), 2u * 6);
  EXPECT_EQ(rig.balance(), "");
}

TEST(Roles, AWorkerThatDoesNotFitIsRefusedAndNotCalledUnreachable) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  rig.gateway()->fleet.set_context(kRigContext + 1);
  rig.kill_decode(0);
  rig.run(300);
  rig.start_decode(0);
  const auto refused = [&] { return rig.log().find("a worker is refused") != std::string::npos; };
  ASSERT_TRUE(rig.run_until(refused, 2000)) << rig.log();
  const std::string log = rig.log();
  const size_t line = log.find("a worker is refused");
  EXPECT_THAT(log.substr(line, log.find('\n', line) - line), HasSubstr("512 tokens of context"));
}

TEST(Roles, RequestsOfOneSessionMeetOnePrefillWorker) {
  RolesRig rig({.prefill_workers = 3});
  ASSERT_TRUE(rig.join());
  std::optional<size_t> home;
  for (uint64_t i = 0; i < 6; ++i) {
    wire::GenerateRequest request;
    request.prompt = rig_prompt(i, 50);
    request.max_tokens = 2;
    request.session = 12345;
    const auto running = rig.submit(std::move(request));
    std::optional<size_t> holder;
    ASSERT_TRUE(rig.run_until(
        [&] {
          for (size_t w = 0; w < 3; ++w) {
            if (rig.prefill(w)->worker.attempts() > 0) holder = w;
          }
          return running.finished();
        },
        5000));
    if (!home) home = holder;
    EXPECT_EQ(holder, home);
  }
  EXPECT_EQ(rig.balance(), "");
}

TEST(Roles, RequestsWithoutAnybodyToRunThemEndWithAnErrorThatSaysTryAgain) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  rig.kill_decode(0);
  rig.run(10);
  const auto running = rig.submit(rig_prompt(1, 20), 5);
  ASSERT_TRUE(rig.run_until([&] { return running.finished(); }, 5000));
  EXPECT_EQ(running.sink->finish()->error->field, wire::kWorkerLost);
  rig.start_decode(0);
  ASSERT_TRUE(rig.join());
  expect_alive(rig, 3);
  EXPECT_THAT(rig.log(), HasSubstr("a worker is back"));
}

TEST(Roles, ASecondGatewayIsTurnedAwayWhileTheFirstIsThere) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  auto second =
      std::make_unique<testing::GatewayProcess>(rig.hub(), rig.options(), rig.clock(), nullptr);
  for (int i = 0; i < 200; ++i) {
    second->router.step();
    rig.step();
  }
  EXPECT_FALSE(second->fleet.is_complete());
  expect_alive(rig, 3);
  rig.kill_gateway();
  for (int i = 0; i < 500 && !second->fleet.is_complete(); ++i) {
    second->router.step();
    rig.step();
  }
  EXPECT_TRUE(second->fleet.is_complete());
}

// C223
TEST(Roles, AProcessWithoutTheKeyIsGivenNothing) {
  RolesRig rig;
  ASSERT_TRUE(rig.join());
  rig.kill_decode(0);
  rig.options().key = "another key";
  rig.start_decode(0);
  rig.run(300);
  EXPECT_FALSE(rig.gateway()->fleet.is_complete());
  EXPECT_THAT(rig.log(), HasSubstr("do not have the same key"));
}

}  // namespace
}  // namespace bulkhead::serve::roles
