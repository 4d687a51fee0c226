// Constrained answers on the whole engine: under load, preempted and in any company each is the
// answer it would be alone, and complete where it stopped.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <future>
#include <map>

#include "base/rng.h"
#include "constraint/compiler.h"
#include "constraint/testing/small_vocabulary.h"
#include "engine/testing/checking_decoder.h"
#include "engine/testing/scripted_decoder.h"
#include "support/engine_stack.h"

namespace bulkhead {
namespace {

using constraint::testing::kEndToken;
using constraint::testing::small_vocabulary;
using engine::testing::CheckingDecoder;
using engine::testing::ScriptedDecoder;
using engine::testing::small_facts;
using testing::EngineStack;
using wire::FinishReason;
using Tokens = std::vector<wire::TokenId>;
using Shared = std::shared_ptr<const wire::Constraint>;

constexpr model::StepLimits kLimits{.rows_max = 512, .logits_rows_max = 64, .slices_max = 64};

Shared compile(const char* schema) {
  static telemetry::Registry registry;
  static const std::unique_ptr<constraint::Compiler> compiler =
      std::move(constraint::Compiler::create(small_vocabulary(), {}, registry)).value();
  wire::ConstraintSpec spec;
  spec.json_schema = schema;
  std::promise<Shared> promise;
  compiler->compile(std::move(spec), [&promise](base::Result<Shared> result) {
    EXPECT_TRUE(result.ok());
    promise.set_value(result.ok() ? *result : nullptr);
  });
  return promise.get_future().get();
}

std::string text_of(const Tokens& tokens) {
  const constraint::Vocabulary vocabulary = small_vocabulary();
  std::string text;
  for (const wire::TokenId token : tokens) text += vocabulary.bytes(token);
  return text;
}

struct Answer {
  Tokens tokens;
  FinishReason reason = FinishReason::kError;
  friend bool operator==(const Answer&, const Answer&) = default;
};

Answer answer_of(const EngineStack::Running& running) {
  Answer answer;
  for (const auto& event : running.sink->events()) answer.tokens.push_back(event.token);
  answer.reason = running.sink->finish()->reason;
  return answer;
}

Answer alone(wire::GenerateRequest request) {
  CheckingDecoder decoder(small_facts(small_vocabulary().width, 1024), kLimits);
  EngineStack stack(decoder, {.pages = 64, .chunk_tokens = 512, .running_max = 1});
  const auto running = stack.submit(std::move(request));
  EXPECT_TRUE(stack.run_until_idle());
  return answer_of(running);
}

wire::GenerateRequest request_of(base::Rng& rng, Shared constraint) {
  wire::GenerateRequest request;
  request.prompt.resize(1 + rng.below(40));
  for (auto& token : request.prompt) token = static_cast<wire::TokenId>(rng.below(250));
  request.max_tokens = 70;
  request.stop_ids = {kEndToken};
  request.sampling.temperature = rng.below(3) == 0 ? 0.0f : 1.0f;
  request.sampling.seed = rng.bits();
  request.constraint = std::move(constraint);
  return request;
}

// C139, C143
TEST(Constrained, AnswersUnderPressureAreTheAnswersAlone) {
  const Shared constraints[] = {
      compile(R"({"type":"array","items":{"type":"integer"},"maxItems":3})"),
      compile(R"({"type":"object","properties":{"a":{"type":"boolean"},"name":{"enum":["x","yy"]}},
                  "required":["a"]})"),
      compile(R"({"type":"string","maxLength":12})"), nullptr};
  base::Rng rng(7);
  int preemptions = 0;
  int complete = 0;
  for (int round = 0; round < 6; ++round) {
    CheckingDecoder decoder(small_facts(small_vocabulary().width, 1024), kLimits);
    EngineStack stack(decoder, {.page_tokens = 16,
                                .pages = 24,
                                .chunk_tokens = 64,
                                .running_max = 16,
                                .prefix_cache = round % 2 == 0});
    std::vector<wire::GenerateRequest> requests;
    std::vector<EngineStack::Running> running;
    for (size_t i = 0; i < 24; ++i) {
      requests.push_back(request_of(rng, constraints[i % std::size(constraints)]));
      running.push_back(stack.submit(requests.back()));
      ASSERT_TRUE(running.back().status.ok());
      for (uint64_t steps = rng.below(4); steps > 0; --steps) stack.step();
    }
    ASSERT_TRUE(stack.run_until_idle());
    EXPECT_EQ(decoder.faults(), 0u);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Answer seen = answer_of(running[i]);
      EXPECT_EQ(seen, alone(requests[i])) << text_of(seen.tokens);
      preemptions += running[i].sink->finish()->preemptions;
      if (!requests[i].constraint || seen.reason != FinishReason::kStop) continue;
      ++complete;
      boost::json::error_code error;
      boost::json::parse(text_of(seen.tokens), error);
      EXPECT_FALSE(error) << text_of(seen.tokens);
    }
    stack.expect_idle();
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(complete, 10);
}

TEST(Constrained, AModelThatWantsOtherwiseStillGivesWhatIsRequired) {
  ScriptedDecoder decoder(small_facts(small_vocabulary().width, 1024), kLimits,
                          ScriptedDecoder::answer_with({'h', 'e', 'l', 'l', 'o'}, kEndToken));
  EngineStack stack(decoder, {});
  wire::GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 50;
  request.stop_ids = {kEndToken};
  request.sampling.temperature = 0.0f;
  request.constraint = compile(R"({"const":"only this"})");
  const auto running = stack.submit(std::move(request));
  ASSERT_TRUE(stack.run_until_idle());
  const Answer answer = answer_of(running);
  EXPECT_EQ(text_of(answer.tokens), R"("only this")");
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  stack.expect_idle();
}

TEST(Constrained, AnAnswerCutShortSaysSo) {
  ScriptedDecoder decoder(small_facts(small_vocabulary().width, 1024), kLimits,
                          ScriptedDecoder::answer_with({'"'}, 'x'));
  EngineStack stack(decoder, {});
  wire::GenerateRequest request;
  request.prompt = {1};
  request.max_tokens = 5;
  request.stop_ids = {kEndToken};
  request.sampling.temperature = 0.0f;
  request.constraint = compile(R"({"type":"string","minLength":10})");
  const auto running = stack.submit(std::move(request));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(answer_of(running).reason, FinishReason::kLength);
  EXPECT_EQ(answer_of(running).tokens.size(), 5u);
}

// Its state leaves nothing to choose; the others go on.
class Broken final : public wire::Constraint, public wire::ConstraintState {
 public:
  std::unique_ptr<wire::ConstraintState> start() const override {
    return std::make_unique<Broken>();
  }
  size_t bytes() const override { return 0; }
  size_t accepted() const override { return 0; }
  bool accept(wire::TokenId) override { return true; }
  void fill_mask(std::span<uint32_t> mask) override { std::fill(mask.begin(), mask.end(), 0u); }
  bool can_stop() const override { return false; }
};

// C131
TEST(Constrained, ARowWithNothingAllowedEndsThatRequestAlone) {
  ScriptedDecoder decoder(small_facts(small_vocabulary().width, 1024), kLimits,
                          ScriptedDecoder::answer_with({'o', 'k'}, kEndToken));
  EngineStack stack(decoder, {});
  wire::GenerateRequest request;
  request.prompt = {1};
  request.max_tokens = 5;
  request.stop_ids = {kEndToken};
  request.sampling.temperature = 0.0f;
  const auto healthy = stack.submit(request);
  request.constraint = std::make_shared<Broken>();
  const auto broken = stack.submit(std::move(request));
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(answer_of(broken).reason, FinishReason::kError);
  EXPECT_EQ(answer_of(healthy).reason, FinishReason::kStop);
  EXPECT_EQ(answer_of(healthy).tokens, (Tokens{'o', 'k'}));
  stack.expect_idle();
}

}  // namespace
}  // namespace bulkhead
