#include "router/request_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace bulkhead::router {
namespace {

constexpr wire::GenerateLimits kLimits{.context_tokens = 100,
                                       .cache_tokens = 80,
                                       .vocabulary_size = 50,
                                       .running_max = 2,
                                       .queued_max = 2};

wire::GenerateRequest good() {
  wire::GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 5;
  return request;
}

std::string refusal(const wire::GenerateRequest& request) {
  const base::Status status = check_request(request, kLimits);
  if (status.ok()) return "none";
  EXPECT_EQ(status.error().code, base::ErrorCode::kInvalidArgument);
  return status.error().field + ": " + status.error().message;
}

std::string refused_field(const std::function<void(wire::SamplingParams&)>& change) {
  wire::GenerateRequest request = good();
  change(request.sampling);
  const base::Status status = check_request(request, kLimits);
  return status.ok() ? "none" : status.error().field;
}

TEST(RequestCheck, SizesThatCanNeverFitAreRefusedWithTheLimit) {
  const auto sized = [](size_t prompt, int32_t max_tokens) {
    wire::GenerateRequest request = good();
    request.prompt.assign(prompt, 1);
    request.max_tokens = max_tokens;
    return refusal(request);
  };
  EXPECT_EQ(sized(60, 20), "none");
  EXPECT_EQ(sized(60, 41),
            "max_tokens: prompt (60 tokens) and max_tokens (41) exceed the context of 100 tokens");
  EXPECT_EQ(sized(60, 21),
            "max_tokens: prompt (60 tokens) and max_tokens (21) exceed the cache of 80 tokens");
  EXPECT_EQ(sized(1, std::numeric_limits<int32_t>::max()),
            "max_tokens: prompt (1 tokens) and max_tokens (2147483647) exceed the context of 100 "
            "tokens");
  EXPECT_EQ(sized(0, 5), "prompt: the prompt is empty");
  EXPECT_EQ(sized(1, 0), "max_tokens: max_tokens must be at least 1");
}

// C170
TEST(RequestCheck, TokensOutsideTheVocabularyAreRefused) {
  wire::GenerateRequest request = good();
  request.prompt = {1, 50};
  EXPECT_EQ(refusal(request), "prompt: token id 50 is outside the vocabulary of 50");
  request.prompt = {-1};
  EXPECT_EQ(refusal(request), "prompt: token id -1 is outside the vocabulary of 50");
  for (const wire::TokenId id : {-1, 50, std::numeric_limits<int32_t>::max()}) {
    EXPECT_EQ(refused_field([id](auto& p) { p.logit_bias = {{id, 1.0f}}; }), "logit_bias");
  }
}

// C169
TEST(RequestCheck, EveryRangeIsHeldAtItsEdgesAndAgainstNan) {
  struct Field {
    const char* name;
    float wire::SamplingParams::* member;
    std::vector<float> fits;
    std::vector<float> refused;
  };
  const float tiny = std::numeric_limits<float>::denorm_min();
  const Field fields[] = {
      {"temperature", &wire::SamplingParams::temperature, {0, tiny, 2}, {-tiny, 2.001f}},
      {"top_p", &wire::SamplingParams::top_p, {tiny, 1}, {0, 1.001f}},
      {"min_p", &wire::SamplingParams::min_p, {0, 1}, {-tiny, 1.001f}},
      {"frequency_penalty", &wire::SamplingParams::frequency_penalty, {-2, 2}, {-2.001f, 2.001f}},
      {"presence_penalty", &wire::SamplingParams::presence_penalty, {-2, 2}, {-2.001f, 2.001f}},
      {"repetition_penalty", &wire::SamplingParams::repetition_penalty, {tiny, 2}, {0, 2.001f}},
  };
  for (const Field& field : fields) {
    for (const float value : field.fits) {
      EXPECT_EQ(refused_field([&](auto& p) { p.*field.member = value; }), "none") << field.name;
    }
    auto refused = field.refused;
    refused.push_back(std::numeric_limits<float>::quiet_NaN());
    refused.push_back(std::numeric_limits<float>::infinity());
    refused.push_back(-std::numeric_limits<float>::infinity());
    for (const float value : refused) {
      EXPECT_EQ(refused_field([&](auto& p) { p.*field.member = value; }), field.name) << value;
    }
  }
  EXPECT_EQ(refused_field([](auto& p) { p.top_k = -1; }), "top_k");
  EXPECT_EQ(refused_field([](auto& p) { p.top_logprobs = 21; }), "top_logprobs");
  EXPECT_EQ(refused_field([](auto& p) { p.top_logprobs = -2; }), "top_logprobs");
  EXPECT_EQ(refused_field([](auto& p) { p.logit_bias = {{1, 101.0f}}; }), "logit_bias");
  EXPECT_EQ(
      refused_field([](auto& p) { p.logit_bias = {{1, std::numeric_limits<float>::quiet_NaN()}}; }),
      "logit_bias");
}

}  // namespace
}  // namespace bulkhead::router
