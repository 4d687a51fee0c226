// Many threads against one step thread: submit, cancel, drain. Meant for the thread sanitizer too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/rng.h"
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

constexpr int32_t kVocabulary = 64;

// C075, C101, C191
TEST(Threads, EveryAcceptedRequestEndsOnceWhateverClientsDo) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), {});
  EngineStack stack(decoder, {.pages = 96, .running_max = 8, .queued_max = 8});
  router::StepLoop loop(stack.router(), stack.clock());
  constexpr int kClients = 4;
  constexpr int kRequests = 60;
  std::atomic<int> refused{0};
  std::vector<std::vector<std::pair<Tokens, EngineStack::Running>>> accepted(kClients);
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      base::Rng rng(static_cast<uint64_t>(client) + 1);
      for (int i = 0; i < kRequests; ++i) {
        Tokens prompt(1 + rng.below(40));
        for (auto& token : prompt) token = static_cast<wire::TokenId>(rng.below(kVocabulary));
        auto running = stack.submit(prompt, static_cast<int32_t>(1 + rng.below(20)));
        if (!running.status.ok()) {
          EXPECT_EQ(running.status.error().code, base::ErrorCode::kResourceExhausted);
          ++refused;
          std::this_thread::yield();
          continue;
        }
        if (rng.below(3) == 0) stack.router().cancel(running.id);
        if (rng.below(3) == 0) stack.router().cancel(rng.below(300));  // perhaps a neighbour's
        (void)stack.router().status();
        accepted[static_cast<size_t>(client)].emplace_back(std::move(prompt), std::move(running));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  loop.stop(std::chrono::seconds(60));
  int total = refused;
  for (const auto& list : accepted) {
    for (const auto& [prompt, running] : list) {
      ++total;
      ASSERT_EQ(running.sink->finishes(), 1);
      const Tokens tokens = running.sink->tokens();
      EXPECT_EQ(tokens, CheckingDecoder::expected_answer(
                            prompt, static_cast<int32_t>(tokens.size()), kVocabulary));
      const auto reason = running.sink->finish()->reason;
      EXPECT_TRUE(reason == FinishReason::kLength || reason == FinishReason::kCancelled);
    }
  }
  EXPECT_EQ(total, kClients * kRequests);
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

TEST(Threads, AnIdleEngineWakesForARequest) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), {});
  EngineStack stack(decoder, {});
  router::StepLoop loop(stack.router(), stack.clock());
  for (int i = 0; i < 5; ++i) {
    const auto running = stack.submit({1, 2, i}, 4);
    ASSERT_TRUE(running.sink->wait_finished());
    EXPECT_EQ(running.sink->tokens().size(), 4u);
  }
}

TEST(Threads, StoppingWithGraceLetsRunningRequestsFinish) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), {});
  EngineStack stack(decoder, {});
  router::StepLoop loop(stack.router(), stack.clock());
  const auto running = stack.submit({1, 2, 3}, 100);
  loop.stop(std::chrono::seconds(60));
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kLength);
  EXPECT_EQ(stack.submit({1}, 1).status.error().code, base::ErrorCode::kUnavailable);
  stack.expect_idle();
}

TEST(Threads, StoppingWithoutGraceEndsThem) {
  ScriptedDecoder decoder(small_facts(kVocabulary, 100000), {},
                          ScriptedDecoder::answer_with({}, 5));
  EngineStack stack(decoder, {.pages = 4096});
  // Holds the answer at its third step until the stop is asked for, so that it cannot end before.
  int steps = 0;
  decoder.set_before_step([&] {
    if (++steps <= 2) return;
    while (!stack.router().status().draining) std::this_thread::yield();
  });
  router::StepLoop loop(stack.router(), stack.clock());
  const auto running = stack.submit({1, 2, 3}, 60000);
  ASSERT_TRUE(running.sink->wait_tokens(2));
  loop.stop(std::chrono::seconds(0));
  ASSERT_EQ(running.sink->finishes(), 1);
  EXPECT_EQ(running.sink->finish()->reason, FinishReason::kCancelled);
  EXPECT_EQ(running.sink->finish()->error->code, base::ErrorCode::kUnavailable);
  stack.expect_idle();
}

// C201
TEST(Threads, ProgressStandsStillWhileAStepHangs) {
  ScriptedDecoder decoder(small_facts(kVocabulary, 1024), {}, ScriptedDecoder::answer_with({7}, 5));
  std::atomic<bool> hold{true};
  std::atomic<bool> held{false};
  decoder.set_before_step([&] {
    held = true;
    while (hold) std::this_thread::yield();
  });
  EngineStack stack(decoder, {});
  router::StepLoop loop(stack.router(), stack.clock());
  const auto running = stack.submit({1}, 1);
  while (!held) std::this_thread::yield();
  const auto stuck = stack.router().status();
  EXPECT_EQ(stack.router().status().last_progress, stuck.last_progress);
  EXPECT_LT(stuck.last_progress, stack.clock().now());
  hold = false;
  ASSERT_TRUE(running.sink->wait_finished());
  while (stack.router().status().last_progress <= stuck.last_progress) std::this_thread::yield();
}

}  // namespace
}  // namespace bulkhead
