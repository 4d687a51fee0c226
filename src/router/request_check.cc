#include "router/request_check.h"

#include <fmt/format.h>

namespace bulkhead::router {
namespace {

struct Range {
  const char* field;
  float value;
  float low;
  float high;
  bool low_included = true;
};

base::Status check_sampling(const wire::SamplingParams& params, int32_t vocabulary_size) {
  const Range ranges[] = {
      {"temperature", params.temperature, 0.0f, 2.0f},
      {"top_p", params.top_p, 0.0f, 1.0f, false},
      {"min_p", params.min_p, 0.0f, 1.0f},
      {"frequency_penalty", params.frequency_penalty, -2.0f, 2.0f},
      {"presence_penalty", params.presence_penalty, -2.0f, 2.0f},
      {"repetition_penalty", params.repetition_penalty, 0.0f, 2.0f, false},
  };
  for (const Range& range : ranges) {
    // Written so that NaN is outside.
    const bool above = range.low_included ? range.value >= range.low : range.value > range.low;
    if (above && range.value <= range.high) continue;
    return base::invalid_argument(
        range.field, fmt::format("{} must be {} {} and at most {}", range.field,
                                 range.low_included ? "at least" : "above", range.low, range.high));
  }
  if (params.top_k < 0) return base::invalid_argument("top_k", "top_k must not be negative");
  if (params.top_logprobs < -1 || params.top_logprobs > 20) {
    return base::invalid_argument("top_logprobs", "top_logprobs must be between 0 and 20");
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocabulary_size) {
      return base::invalid_argument(
          "logit_bias",
          fmt::format("token id {} is outside the vocabulary of {}", id, vocabulary_size));
    }
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return base::invalid_argument("logit_bias", "a bias must be between -100 and 100");
    }
  }
  return {};
}

base::Status check_size(int64_t prompt, int64_t answer, int64_t limit, const char* what) {
  if (prompt + answer <= limit) return {};
  return base::invalid_argument(
      "max_tokens", fmt::format("prompt ({} tokens) and max_tokens ({}) exceed the {} of {} tokens",
                                prompt, answer, what, limit));
}

}  // namespace

base::Status check_request(const wire::GenerateRequest& request,
                           const wire::GenerateLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return base::invalid_argument("prompt", "the prompt is empty");
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > 20) {
    return base::invalid_argument("prompt_logprobs", "prompt_logprobs must be between 0 and 20");
  }
  const int32_t fewest = request.prompt_logprobs >= 0 ? 0 : 1;
  if (request.max_tokens < fewest) {
    return base::invalid_argument("max_tokens",
                                  fmt::format("max_tokens must be at least {}", fewest));
  }
  BH_TRY(check_size(prompt, request.max_tokens, limits.context_tokens, "context"));
  const bool split = limits.prefill_cache_tokens > 0;
  if (split && prompt > limits.prefill_cache_tokens) {
    return base::invalid_argument(
        "prompt", fmt::format("the prompt ({} tokens) exceeds the prefill pool of {} tokens",
                              prompt, limits.prefill_cache_tokens));
  }
  BH_TRY(
      check_size(prompt, request.max_tokens, limits.cache_tokens, split ? "decode pool" : "cache"));
  for (const wire::TokenId token : request.prompt) {
    if (token >= 0 && token < limits.vocabulary_size) continue;
    return base::invalid_argument(
        "prompt",
        fmt::format("token id {} is outside the vocabulary of {}", token, limits.vocabulary_size));
  }
  return check_sampling(request.sampling, limits.vocabulary_size);
}

}  // namespace bulkhead::router
