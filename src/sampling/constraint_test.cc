// How the sampler obeys a constraint.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sampling/sampler.h"

namespace bulkhead::sampling {
namespace {

using wire::SequenceState;
using wire::TokenId;

constexpr int32_t kVocabulary = 40;
constexpr TokenId kStop = 39;

// Allows the ids of one list after another; complete from the end of the lists on.
class Script final : public wire::Constraint {
 public:
  explicit Script(std::vector<std::vector<TokenId>> steps, bool may_stop_always = false)
      : steps_(std::move(steps)), may_stop_always_(may_stop_always) {}
  std::unique_ptr<wire::ConstraintState> start() const override;
  size_t bytes() const override { return 0; }

  const std::vector<std::vector<TokenId>> steps_;
  const bool may_stop_always_;
};

class ScriptState final : public wire::ConstraintState {
 public:
  explicit ScriptState(const Script& script) : script_(script) {}
  size_t accepted() const override { return accepted_; }
  bool accept(TokenId token) override {
    if (accepted_ >= script_.steps_.size()) return false;
    const auto& step = script_.steps_[accepted_];
    if (std::find(step.begin(), step.end(), token) == step.end()) return false;
    ++accepted_;
    return true;
  }
  void fill_mask(std::span<uint32_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0u);
    if (accepted_ >= script_.steps_.size()) return;
    for (const TokenId id : script_.steps_[accepted_]) {
      mask[static_cast<size_t>(id) / 32] |= 1u << (static_cast<size_t>(id) % 32);
    }
  }
  bool can_stop() const override {
    return script_.may_stop_always_ || accepted_ >= script_.steps_.size();
  }

 private:
  const Script& script_;
  size_t accepted_ = 0;
};

std::unique_ptr<wire::ConstraintState> Script::start() const {
  return std::make_unique<ScriptState>(*this);
}

struct Case {
  explicit Case(std::shared_ptr<const Script> script, int32_t min_tokens = 0) {
    wire::GenerateRequest request;
    request.prompt = {1};
    request.max_tokens = 100;
    request.min_tokens = min_tokens;
    request.stop_ids = {kStop};
    request.sampling.temperature = 0.0f;
    constraint = std::move(script);
    request.constraint = constraint;
    sequence = SequenceState(std::move(request), 0);
    // The higher the id, the likelier; the stop id most of all.
    for (size_t id = 0; id < logits.size(); ++id) logits[id] = static_cast<float>(id);
  }
  base::Result<wire::TokenEvent> next() { return sampler.sample(logits, sequence); }
  TokenId taken() {
    const auto event = next();
    EXPECT_TRUE(event.ok());
    if (!event.ok()) return -1;
    sequence.tokens.push_back(event->token);
    return event->token;
  }

  Sampler sampler{kVocabulary};
  std::shared_ptr<const Script> constraint;
  SequenceState sequence;
  std::vector<float> logits = std::vector<float>(kVocabulary);
};

using Steps = std::vector<std::vector<TokenId>>;

TEST(Constraint, OnlyAllowedTokensAreChosenAndThenTheEnd) {
  Case one(std::make_shared<Script>(Steps{{3, 5}, {2}, {37, 38}}));
  EXPECT_EQ(one.taken(), 5);
  EXPECT_EQ(one.taken(), 2);
  EXPECT_EQ(one.taken(), 38);
  EXPECT_EQ(one.taken(), kStop);
}

TEST(Constraint, DrawsStayInsideAtEveryTemperatureAndFilter) {
  for (int seed = 0; seed < 200; ++seed) {
    Case one(std::make_shared<Script>(Steps{{3, 5, 6}, {2, 33}}));
    one.sequence.sampling.temperature = 1.8f;
    one.sequence.sampling.seed = static_cast<uint64_t>(seed);
    if (seed % 2 == 0) one.sequence.sampling.top_p = 0.9f;
    if (seed % 3 == 0) one.sequence.sampling.top_k = 2;
    if (seed % 5 == 0) one.sequence.sampling.min_p = 0.1f;
    const TokenId first = one.taken();
    EXPECT_TRUE(first == 3 || first == 5 || first == 6) << first;
    const TokenId second = one.taken();
    EXPECT_TRUE(second == 2 || second == 33) << second;
  }
}

TEST(Constraint, NeitherBiasNorPenaltiesBringATokenBack) {
  Case one(std::make_shared<Script>(Steps{{3}, {3}}));
  one.sequence.sampling.logit_bias = {{7, 100.0f}, {3, -100.0f}};
  one.sequence.sampling.repetition_penalty = 2.0f;
  one.sequence.sampling.presence_penalty = 2.0f;
  EXPECT_EQ(one.taken(), 3);
  EXPECT_EQ(one.taken(), 3);
}

TEST(Constraint, TheEndIsAChoiceWhereTheAnswerMayGoOn) {
  Case one(std::make_shared<Script>(Steps{{3}, {4}}, true));
  EXPECT_EQ(one.next()->token, kStop);
  Case longer(std::make_shared<Script>(Steps{{3}, {4}}, true), 1);
  EXPECT_EQ(longer.taken(), 3);
  EXPECT_EQ(longer.taken(), kStop);
}

TEST(Constraint, ACompleteAnswerEndsBeforeMinTokens) {
  Case one(std::make_shared<Script>(Steps{{3}}), 10);
  EXPECT_EQ(one.taken(), 3);
  EXPECT_EQ(one.taken(), kStop);
}

TEST(Constraint, NoTokenLeftIsAnErrorOfThatRequest) {
  Case one(std::make_shared<Script>(Steps{{}}));
  const auto result = one.next();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("required format"), std::string::npos);
  Case endless(std::make_shared<Script>(Steps{}));
  endless.sequence.stop_ids.clear();
  EXPECT_FALSE(endless.next().ok());
}

// C143
TEST(Constraint, ItsStateFollowsTheTokensOfTheSequence) {
  // As after a move to another place: the state is new, the tokens are not.
  Case one(std::make_shared<Script>(Steps{{3}, {4}, {5, 6}}));
  one.sequence.tokens.insert(one.sequence.tokens.end(), {3, 4});
  EXPECT_EQ(one.next()->token, 6);
  EXPECT_EQ(one.next()->token, 6);  // asking twice changes nothing
}

TEST(Constraint, LogprobsAreOfTheRawLogits) {
  Case one(std::make_shared<Script>(Steps{{3}}));
  one.sequence.sampling.top_logprobs = 1;
  const auto event = one.next();
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->token, 3);
  EXPECT_EQ(event->top_logprobs[0].id, kStop);
  EXPECT_LT(event->logprob, -30.0f);
}

}  // namespace
}  // namespace bulkhead::sampling
