// SOLO and CONSERVE under pressure: 64 requests in pools far too small for them, with shared
// prefixes, several answers to one prompt, preemption, cancellation, flushes and chunks of every
// size, in random schedules that rapidcheck shrinks when one fails.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

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
constexpr int32_t kPageTokens = 16;
constexpr model::StepLimits kLimits{.rows_max = 512, .logits_rows_max = 64, .slices_max = 64};

// One request of a schedule, in small numbers that shrink well.
struct Plan {
  int family = 0;         // requests of a family begin alike
  int shared_tokens = 0;  // of the family's text
  int own_tokens = 1;
  int max_tokens = 1;
  int tenant = 0;
  int seed = 0;           // 0: greedy
  int submit_at = 0;      // step
  int cancel_after = -1;  // steps; -1: never
  bool insert = true;
  bool follows = false;  // another answer to the prompt of the request before it
  bool scored = false;
  int priority = 0;
};

void showValue(const Plan& plan, std::ostream& out) {
  out << "{family " << plan.family << ", shared " << plan.shared_tokens << ", own "
      << plan.own_tokens << ", max " << plan.max_tokens << ", tenant " << plan.tenant << ", seed "
      << plan.seed << ", at " << plan.submit_at << ", cancel +" << plan.cancel_after << ", insert "
      << plan.insert << ", follows " << plan.follows << ", scored " << plan.scored << ", priority "
      << plan.priority << "}";
}

rc::Gen<Plan> any_plan() {
  using rc::gen::inRange;
  using rc::gen::set;
  return rc::gen::build<Plan>(
      set(&Plan::family, inRange(0, 3)), set(&Plan::shared_tokens, inRange(0, 60)),
      set(&Plan::own_tokens, inRange(1, 20)), set(&Plan::max_tokens, inRange(1, 100)),
      set(&Plan::tenant, inRange(0, 2)), set(&Plan::seed, inRange(0, 4)),
      set(&Plan::submit_at, inRange(0, 120)),
      set(&Plan::cancel_after,
          rc::gen::weightedOneOf<int>({{3, rc::gen::just(-1)}, {1, inRange(0, 60)}})),
      set(&Plan::insert, rc::gen::weightedElement<bool>({{5, true}, {1, false}})),
      set(&Plan::follows, rc::gen::weightedElement<bool>({{1, true}, {3, false}})),
      set(&Plan::scored, rc::gen::weightedElement<bool>({{1, true}, {5, false}})),
      set(&Plan::priority, rc::gen::weightedElement<int>({{6, 0}, {1, -1}, {1, 1}})));
}

Tokens prompt_of(const Plan& plan, size_t index) {
  Tokens tokens;
  for (int i = 0; i < plan.shared_tokens; ++i) {
    tokens.push_back(static_cast<wire::TokenId>(
        base::random_bits(1, static_cast<uint64_t>(plan.family), static_cast<uint64_t>(i)) %
        kVocabulary));
  }
  for (int i = 0; i < plan.own_tokens; ++i) {
    tokens.push_back(static_cast<wire::TokenId>(
        base::random_bits(2, static_cast<uint64_t>(index), static_cast<uint64_t>(i)) %
        kVocabulary));
  }
  return tokens;
}

wire::GenerateRequest request_of(const Plan& plan, Tokens prompt) {
  wire::GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = plan.max_tokens;
  request.sampling.temperature = plan.seed == 0 ? 0.0f : 0.8f;
  request.sampling.seed = static_cast<uint64_t>(plan.seed);
  request.sampling.top_logprobs = 1;
  if (plan.seed == 3) request.sampling.frequency_penalty = 0.7f;
  request.cache.tenant = {static_cast<uint8_t>(plan.tenant + 1)};
  request.cache.insert = plan.insert;
  request.priority = plan.priority;
  if (plan.scored) request.prompt_logprobs = 2;
  return request;
}

// What a client sees, bit for bit.
struct Seen {
  std::vector<std::pair<wire::TokenId, float>> tokens;
  std::vector<std::pair<wire::TokenId, float>> prompt;
  FinishReason reason = FinishReason::kError;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen seen_by(const engine::testing::CollectingSink& sink) {
  Seen seen;
  for (const auto& event : sink.events()) seen.tokens.emplace_back(event.token, event.logprob);
  for (const auto& stretch : sink.prompt_events()) {
    RC_ASSERT(stretch.position == static_cast<int32_t>(seen.prompt.size()) + 1);
    for (const auto& one : stretch.tokens) seen.prompt.emplace_back(one.token, one.logprob);
  }
  seen.reason = sink.finish()->reason;
  return seen;
}

Seen alone(wire::GenerateRequest request) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.chunk_tokens = 512, .running_max = 1, .prefix_cache = false});
  const auto running = stack.submit(std::move(request));
  RC_ASSERT(running.status.ok());
  RC_ASSERT(stack.run_until_idle());
  return seen_by(*running.sink);
}

template <typename T>
bool begins_with(const std::vector<T>& whole, const std::vector<T>& start) {
  return start.size() <= whole.size() && std::equal(start.begin(), start.end(), whole.begin());
}

void expect_same_as_alone(const Plan& plan, const wire::GenerateRequest& request,
                          const engine::testing::CollectingSink& sink) {
  RC_ASSERT(sink.finishes() == 1);
  RC_ASSERT(sink.tokens_after_finish() == 0);
  const Seen expected = alone(request);
  const Seen seen = seen_by(sink);
  if (seen.reason != FinishReason::kCancelled) {
    RC_ASSERT(seen == expected);
    return;
  }
  RC_ASSERT(plan.cancel_after >= 0);
  RC_ASSERT(begins_with(expected.tokens, seen.tokens));
  RC_ASSERT(begins_with(expected.prompt, seen.prompt));
}

// Runs the schedule to its end and returns how often somebody was preempted.
int run_schedule(const std::vector<Plan>& plans, const StackOptions& options, uint64_t seed) {
  base::Rng rng(seed);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, options);
  std::vector<wire::GenerateRequest> requests;
  for (size_t i = 0; i < plans.size(); ++i) {
    const bool follows = plans[i].follows && i > 0;
    requests.push_back(
        request_of(plans[i], follows ? requests.back().prompt : prompt_of(plans[i], i)));
  }
  std::map<size_t, EngineStack::Running> running;
  for (int step = 0; step < 20000; ++step) {
    for (size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].submit_at == step) {
        wire::GenerateRequest request = requests[i];
        if (plans[i].follows && running.count(i - 1) > 0) request.leader = running.at(i - 1).id;
        running[i] = stack.submit(std::move(request));
        RC_ASSERT(running[i].status.ok());
      }
      if (plans[i].cancel_after >= 0 && plans[i].submit_at + plans[i].cancel_after == step) {
        stack.router().cancel(running.at(i).id);
      }
    }
    if (rng.below(100) == 0) stack.router().flush_cache();
    stack.prefill().set_chunk_tokens(static_cast<int32_t>(1 + rng.below(512)));
    const auto outcome = stack.step();
    const auto found = stack.violations();
    if (!found.empty()) RC_FAIL(kv::describe(found));
    if (outcome == wire::StepOutcome::kIdle && step > 200) break;
  }
  RC_ASSERT(decoder.faults() == 0u);
  RC_ASSERT(running.size() == plans.size());
  int preemptions = 0;
  for (const auto& [index, one] : running) {
    expect_same_as_alone(plans[index], requests[index], *one.sink);
    preemptions += one.sink->finish()->preemptions;
  }
  stack.expect_idle();
  return preemptions;
}

// C044, C057
RC_GTEST_PROP(Pressure, SixtyFourRequestsInATinyPoolEachGetTheAnswerTheyGetAlone, ()) {
  // At full size from the first case on: small schedules put nobody under pressure.
  const auto at_full_size = [](auto generator) {
    return rc::gen::resize(rc::kNominalSize, std::move(generator));
  };
  const auto plans = *at_full_size(rc::gen::container<std::vector<Plan>>(64, any_plan()));
  StackOptions options;
  options.page_tokens = kPageTokens;
  options.pages = *at_full_size(rc::gen::inRange(12, 60));  // one request may need 12
  options.running_max = *at_full_size(rc::gen::inRange(1u, 65u));
  options.prefix_cache = *rc::gen::weightedElement<bool>({{5, true}, {1, false}});
  const auto seed = *rc::gen::inRange<uint64_t>(0, 1 << 20);
  const int preemptions = run_schedule(plans, options, seed);
  RC_CLASSIFY(preemptions > 0, "somebody was preempted");
}

TEST(Pressure, PreemptionHappensAndChangesNoAnswer) {
  std::vector<Plan> plans(16);
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].own_tokens = 4;
    plans[i].max_tokens = 70;
    plans[i].seed = static_cast<int>(i % 4);
  }
  EXPECT_GT(run_schedule(plans, {.pages = 20, .running_max = 16}, 1), 0);
}

TEST(Pressure, SeveralAnswersShareTheirPromptsPages) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64, .chunk_tokens = 512, .running_max = 8});
  Plan plan;
  plan.own_tokens = 161;  // ten pages and a token
  plan.max_tokens = 15;
  const Tokens prompt = prompt_of(plan, 0);
  std::vector<EngineStack::Running> running;
  for (int k = 0; k < 4; ++k) {
    plan.seed = k;
    wire::GenerateRequest request = request_of(plan, prompt);
    if (k > 0) request.leader = running[0].id;
    running.push_back(stack.submit(std::move(request)));
  }
  for (int i = 0; i < 5; ++i) stack.step();
  const wire::GeneratorStatus status = stack.router().status();
  EXPECT_EQ(status.running, 4u);
  // Ten shared pages and one or two of each answer's own; four lone copies would take 44.
  EXPECT_LE(status.pages.total - status.pages.free - status.pages.cached, 10 + 4 * 2);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(running[0].sink->finish()->cached_tokens, 0);
  for (int k = 1; k < 4; ++k) EXPECT_EQ(running[k].sink->finish()->cached_tokens, 160);
  stack.expect_idle();
}

TEST(Pressure, AHitGivesTheBitsOfAMiss) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64});
  Plan plan;
  plan.own_tokens = 100;
  plan.max_tokens = 20;
  const wire::GenerateRequest request = request_of(plan, prompt_of(plan, 0));
  const auto miss = stack.submit(request);
  ASSERT_TRUE(stack.run_until_idle());
  const auto hit = stack.submit(request);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(miss.sink->finish()->cached_tokens, 0);
  EXPECT_EQ(hit.sink->finish()->cached_tokens, 96);
  EXPECT_EQ(seen_by(*hit.sink), seen_by(*miss.sink));
  // The next turn of the conversation finds the answer's pages too.
  wire::GenerateRequest next = request;
  for (const wire::TokenId token : miss.sink->tokens()) next.prompt.push_back(token);
  next.prompt.push_back(5);
  const auto turn = stack.submit(next);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(turn.sink->finish()->cached_tokens, 112);
  EXPECT_EQ(seen_by(*turn.sink), alone(next));
  stack.expect_idle();
}

TEST(Pressure, WhoAsksToBeLeftOutLeavesNothingBehind) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64});
  Plan plan;
  plan.own_tokens = 100;
  plan.max_tokens = 20;
  plan.insert = false;
  stack.submit(request_of(plan, prompt_of(plan, 0)));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(stack.index().size(), 0);
  stack.expect_idle();
}

// C176
TEST(Pressure, PagesWithoutFiniteLogitsAreNotKept) {
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  decoder.poison_after(63);
  EngineStack stack(decoder, {.pages = 64});
  Tokens prompt(40, 1);
  prompt.push_back(63);
  const auto failed = stack.submit(prompt, 5);
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(failed.sink->finish()->reason, FinishReason::kError);
  EXPECT_EQ(stack.index().size(), 0);
  stack.expect_idle();
}

// Where a request is, seen from outside the router.
enum class Place { kQueued, kPrefilling, kTransferring, kDecoding };

std::optional<Place> place_of(const EngineStack& stack, wire::RequestId id) {
  const auto holds = [id](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [id](const auto& one) { return one.state.id == id; });
  };
  if (holds(stack.prefill().sequences())) return Place::kPrefilling;
  if (holds(stack.link().waiting())) return Place::kTransferring;
  for (const auto& parcel : stack.converting().parcels()) {
    if (parcel.handoff.state.id == id) return Place::kTransferring;
  }
  if (holds(stack.decode().sequences())) return Place::kDecoding;
  return std::nullopt;
}

void cancel_a_thousand(const testing::StackOptions& options) {
  base::Rng rng(42);
  CheckingDecoder decoder(small_facts(kVocabulary, 1024), kLimits);
  EngineStack stack(decoder, options);
  std::map<Place, int> cancelled;
  std::vector<EngineStack::Running> live;
  int total = 0;
  for (int step = 0; total < 1000; ++step) {
    ASSERT_LT(step, 100000);
    while (live.size() < 10) {
      Plan plan;
      plan.family = static_cast<int>(rng.below(3));
      plan.shared_tokens = static_cast<int>(rng.below(60));
      plan.own_tokens = static_cast<int>(1 + rng.below(40));
      plan.max_tokens = static_cast<int>(1 + rng.below(60));
      live.push_back(stack.submit(request_of(plan, prompt_of(plan, static_cast<size_t>(step)))));
    }
    stack.step();
    std::erase_if(live, [](const auto& one) { return one.sink->finishes() > 0; });
    if (live.empty() || rng.below(2) == 0) continue;
    const auto victim = live.begin() + static_cast<std::ptrdiff_t>(rng.below(live.size()));
    ++cancelled[place_of(stack, victim->id).value_or(Place::kQueued)];
    stack.router().cancel(victim->id);
    ++total;
    stack.step();
    ASSERT_EQ(victim->sink->finishes(), 1);
    ASSERT_EQ(victim->sink->finish()->reason, FinishReason::kCancelled);
    live.erase(victim);
    ASSERT_TRUE(stack.violations().empty());
  }
  for (const auto& one : live) stack.router().cancel(one.id);
  ASSERT_TRUE(stack.run_until_idle());
  for (const Place place :
       {Place::kQueued, Place::kPrefilling, Place::kTransferring, Place::kDecoding}) {
    EXPECT_GT(cancelled[place], 10) << static_cast<int>(place);
  }
  EXPECT_EQ(decoder.faults(), 0u);
  stack.expect_idle();
}

// C191
TEST(Pressure, AThousandCancellationsInEveryStateLeaveNothingBehind) {
  cancel_a_thousand({.pages = 24, .chunk_tokens = 24, .running_max = 6});
}

// C076
TEST(Pressure, NorDoTheyInTheSplitPlacement) {
  cancel_a_thousand(
      {.pages = 30, .prefill_pages = 20, .link_pages = 1, .chunk_tokens = 24, .running_max = 6});
}

}  // namespace
}  // namespace bulkhead
