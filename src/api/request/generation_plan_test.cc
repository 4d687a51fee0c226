#include "api/request/generation_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bulkhead::api {
namespace {

using Ids = std::vector<wire::TokenId>;

wire::GenerateLimits limits_of(int32_t context, int32_t cache = 100000) {
  wire::GenerateLimits limits;
  limits.context_tokens = context;
  limits.cache_tokens = cache;
  limits.vocabulary_size = 100;
  return limits;
}

struct Planned {
  Failure failure;
  GenerationPlan plan;
};

Planned plan(const RequestFields& fields, size_t prompt, const wire::GenerateLimits& limits,
             Endpoint endpoint = kChat, const GenerationDefaults& defaults = {}) {
  Planned out;
  out.failure = plan_generation(fields, endpoint, Ids(prompt, 1), defaults, limits, 77, out.plan);
  return out;
}

TEST(GenerationPlan, LengthsAreExactAtTheContextsEdge) {
  struct Row {
    size_t prompt;
    std::optional<int64_t> asked;
    int32_t planned;  // 0: refused
  };
  const Row rows[] = {
      {20, std::nullopt, 108},
      {20, 107, 107},
      {20, 108, 108},
      {20, 109, 0},
      {20, 10000, 0},
      {126, std::nullopt, 2},
      {127, std::nullopt, 1},
      {127, 1, 1},
      {127, 2, 0},
      {128, std::nullopt, 0},
      {128, 1, 0},
      {129, std::nullopt, 0},
      {1280, 1, 0},
  };
  for (const Row& row : rows) {
    RequestFields fields;
    fields.max_tokens = row.asked;
    const Planned out = plan(fields, row.prompt, limits_of(128));
    ASSERT_EQ(out.failure.has_value(), row.planned == 0) << row.prompt;
    if (out.failure) {
      EXPECT_EQ(out.failure->code, "context_length_exceeded");
      EXPECT_NE(out.failure->message.find("128"), std::string::npos);
      EXPECT_NE(out.failure->message.find(std::to_string(row.prompt)), std::string::npos);
    } else {
      EXPECT_EQ(out.plan.request.max_tokens, row.planned) << row.prompt;
    }
  }
}

TEST(GenerationPlan, ACacheSmallerThanTheContextIsTheLimit) {
  EXPECT_EQ(plan({}, 20, limits_of(128, 64)).plan.request.max_tokens, 44);
}

TEST(GenerationPlan, TheNewerNameOfTheLimitGoesFirst) {
  RequestFields fields;
  fields.max_tokens = 5;
  fields.max_completion_tokens = 7;
  EXPECT_EQ(plan(fields, 1, limits_of(128)).plan.request.max_tokens, 7);
}

TEST(GenerationPlan, CompletionsDefaultToSixteenTokensOrTheRestOfTheContext) {
  EXPECT_EQ(plan({}, 1, limits_of(128), kCompletions).plan.request.max_tokens, 16);
  EXPECT_EQ(plan({}, 120, limits_of(128), kCompletions).plan.request.max_tokens, 8);
}

TEST(GenerationPlan, MinTokensMayNotExceedWhatMayBeGenerated) {
  RequestFields fields;
  fields.max_tokens = 5;
  fields.min_tokens = 5;
  EXPECT_FALSE(plan(fields, 1, limits_of(128)).failure.has_value());
  fields.min_tokens = 6;
  EXPECT_EQ(plan(fields, 1, limits_of(128)).failure->param, "min_tokens");
}

TEST(GenerationPlan, PromptsHaveAtLeastOneTokenAllInsideTheVocabulary) {
  EXPECT_EQ(plan({}, 0, limits_of(128)).failure->param, "messages");
  EXPECT_EQ(plan({}, 0, limits_of(128), kCompletions).failure->param, "prompt");
  GenerationPlan out;
  EXPECT_TRUE(plan_generation({}, kChat, {100}, {}, limits_of(128), 0, out).has_value());
  EXPECT_TRUE(plan_generation({}, kChat, {-1}, {}, limits_of(128), 0, out).has_value());
}

TEST(GenerationPlan, TheClientsValuesGoBeforeTheModels) {
  GenerationDefaults defaults;
  defaults.temperature = 0.6;
  defaults.top_p = 0.9;
  defaults.top_k = 20;
  defaults.repetition_penalty = 1.1;
  wire::SamplingParams sampling =
      plan({}, 1, limits_of(128), kChat, defaults).plan.request.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.6f);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.seed, 77u);
  EXPECT_EQ(sampling.top_logprobs, -1);

  RequestFields fields;
  fields.temperature = 0;
  fields.top_p = 1;
  fields.top_k = -1;
  fields.repetition_penalty = 1;
  fields.seed = -1;
  fields.logprobs = true;
  sampling = plan(fields, 1, limits_of(128), kChat, defaults).plan.request.sampling;
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_EQ(sampling.top_p, 1.0f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(sampling.seed, ~uint64_t{0});
  EXPECT_EQ(sampling.top_logprobs, 0);
}

TEST(GenerationPlan, TinyValuesStayInTheRangeOfFloat) {
  RequestFields fields;
  fields.temperature = 1e-9;
  fields.top_p = 1e-300;
  fields.repetition_penalty = 1e-300;
  const wire::SamplingParams sampling = plan(fields, 1, limits_of(128)).plan.request.sampling;
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_GT(sampling.top_p, 0.0f);
  EXPECT_GT(sampling.repetition_penalty, 0.0f);
}

TEST(GenerationPlan, StopIdsAreTheModelsAndTheClients) {
  GenerationDefaults defaults;
  defaults.eos_ids = {2, 7};
  RequestFields fields;
  fields.stop_token_ids = {7, 5};
  EXPECT_EQ(plan(fields, 1, limits_of(128), kChat, defaults).plan.request.stop_ids, (Ids{2, 5, 7}));
  fields.ignore_eos = true;
  EXPECT_EQ(plan(fields, 1, limits_of(128), kChat, defaults).plan.request.stop_ids, (Ids{5, 7}));
}

TEST(GenerationDefaults, OutsideTheirRangeAreALoadError) {
  GenerationDefaults defaults;
  defaults.eos_ids = {99};
  EXPECT_TRUE(defaults.validate(100).ok());
  EXPECT_FALSE(defaults.validate(99).ok());
  defaults.eos_ids.clear();
  defaults.temperature = 2.5;
  EXPECT_FALSE(defaults.validate(100).ok());
  defaults.temperature = std::nan("");
  EXPECT_FALSE(defaults.validate(100).ok());
  defaults.temperature = 0;
  defaults.top_p = 0;
  EXPECT_FALSE(defaults.validate(100).ok());
}

}  // namespace
}  // namespace bulkhead::api
