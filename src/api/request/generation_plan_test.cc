#include "api/request/generation_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace bulkhead::api {
namespace {

using Ids = std::vector<wire::TokenId>;

wire::GenerateLimits limits_of(int32_t context, int32_t cache = 100000) {
  wire::GenerateLimits limits;
  limits.context_tokens = context;
  limits.cache_tokens = cache;
  limits.vocabulary_size = 100;
  limits.running_max = 8;
  limits.queued_max = 56;
  return limits;
}

struct Planned {
  Failure failure;
  GenerationPlan plan;
};

Planned plan(const RequestFields& fields, size_t prompt, const wire::GenerateLimits& limits,
             Endpoint endpoint = kChat, const GenerationDefaults& defaults = {}) {
  Planned out;
  out.failure =
      plan_generation(fields, endpoint, {{Ids(prompt, 1)}}, defaults, limits, 77, out.plan);
  return out;
}

// C107, C135, C183
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
      EXPECT_EQ(out.plan.prompts[0].max_tokens, row.planned) << row.prompt;
    }
  }
}

TEST(GenerationPlan, ACacheSmallerThanTheContextIsTheLimit) {
  EXPECT_EQ(plan({}, 20, limits_of(128, 64)).plan.prompts[0].max_tokens, 44);
}

// C185
TEST(GenerationPlan, TheNewerNameOfTheLimitGoesFirst) {
  RequestFields fields;
  fields.max_tokens = 5;
  fields.max_completion_tokens = 7;
  EXPECT_EQ(plan(fields, 1, limits_of(128)).plan.prompts[0].max_tokens, 7);
}

TEST(GenerationPlan, CompletionsDefaultToSixteenTokensOrTheRestOfTheContext) {
  EXPECT_EQ(plan({}, 1, limits_of(128), kCompletions).plan.prompts[0].max_tokens, 16);
  EXPECT_EQ(plan({}, 120, limits_of(128), kCompletions).plan.prompts[0].max_tokens, 8);
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
  EXPECT_TRUE(plan_generation({}, kChat, {{{100}}}, {}, limits_of(128), 0, out).has_value());
  EXPECT_TRUE(plan_generation({}, kChat, {{{-1}}}, {}, limits_of(128), 0, out).has_value());
}

// C167, C168
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

// C167
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

TEST(GenerationPlan, NoTokensNeedNoRoom) {
  RequestFields fields;
  fields.max_tokens = 0;
  fields.echo = true;
  EXPECT_FALSE(plan(fields, 128, limits_of(128), kCompletions).failure.has_value());
  EXPECT_EQ(plan(fields, 20, limits_of(128), kCompletions).plan.prompts[0].max_tokens, 0);
  EXPECT_EQ(plan(fields, 129, limits_of(128), kCompletions).failure->code,
            "context_length_exceeded");
}

TEST(GenerationPlan, EveryPromptHasItsOwnLengthAndIsNamedWhenItIsWrong) {
  RequestFields fields;
  fields.max_tokens = 8;
  GenerationPlan out;
  EXPECT_FALSE(plan_generation(fields, kCompletions, {{Ids(5, 1)}, {Ids(120, 1)}}, {},
                               limits_of(128), 0, out)
                   .has_value());
  EXPECT_EQ(out.prompts.size(), 2u);
  Failure failure = plan_generation(fields, kCompletions, {{Ids(5, 1)}, {Ids(121, 1)}}, {},
                                    limits_of(128), 0, out);
  EXPECT_NE(failure->message.find("prompt[1]"), std::string::npos);
  failure = plan_generation(fields, kCompletions, {{Ids(5, 1)}, {}}, {}, limits_of(128), 0, out);
  EXPECT_EQ(failure->param, "prompt[1]");
}

TEST(GenerationPlan, MoreChoicesThanTheServerCanEverQueueAreRefusedWithTheLimit) {
  RequestFields fields;
  fields.n = 64;
  EXPECT_FALSE(plan(fields, 1, limits_of(128)).failure.has_value());
  fields.n = 65;
  const Failure failure = plan(fields, 1, limits_of(128)).failure;
  EXPECT_EQ(failure->param, "n");
  EXPECT_EQ(failure->code, "invalid_value");
  EXPECT_NE(failure->message.find("64"), std::string::npos);
}

TEST(GenerationPlan, TheFirstChoiceHasTheRequestsSeedAndEveryOtherItsOwn) {
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{2}, ~uint64_t{0}}) {
    EXPECT_EQ(choice_seed(seed, 0), seed);
    for (int32_t number = 0; number < 128; ++number) {
      EXPECT_EQ(choice_seed(seed, number), choice_seed(seed, number));
      seeds.insert(choice_seed(seed, number));
    }
  }
  EXPECT_EQ(seeds.size(), 4u * 128u);
}

TEST(GenerationPlan, PromptsAreScoredAsFarAsAnythingAsksForIt) {
  RequestFields fields;
  const auto asked = [&] {
    return plan(fields, 5, limits_of(128), kCompletions).plan.request.prompt_logprobs;
  };
  EXPECT_EQ(asked(), -1);
  fields.echo = true;
  EXPECT_EQ(asked(), -1);
  fields.completion_logprobs = 2;
  EXPECT_EQ(asked(), 2);
  fields.prompt_logprobs = 5;
  EXPECT_EQ(asked(), 5);
  fields.echo.reset();
  fields.prompt_logprobs = 0;
  EXPECT_EQ(asked(), 0);
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
