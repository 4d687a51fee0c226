#include "api/request/generation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bulkhead::api {
namespace {

// Below this a temperature is greedy: dividing logits by it would overflow float.
constexpr double kTemperatureGreedy = 1e-5;
// Likewise: a smaller factor acts as this one.
constexpr double kRepetitionPenaltyMin = 0.01;
constexpr double kTopPMin = 1e-6;

wire::SamplingParams sampling(const RequestFields& fields, Endpoint endpoint,
                              const GenerationDefaults& defaults, uint64_t seed) {
  const auto pick = [](const std::optional<double>& given, double otherwise) {
    return static_cast<float>(given.value_or(otherwise));
  };
  wire::SamplingParams out;
  const double temperature = fields.temperature.value_or(defaults.temperature);
  out.temperature = temperature < kTemperatureGreedy ? 0.0f : static_cast<float>(temperature);
  out.top_p = static_cast<float>(std::max(fields.top_p.value_or(defaults.top_p), kTopPMin));
  out.top_k = static_cast<int32_t>(std::max<int64_t>(fields.top_k.value_or(defaults.top_k), 0));
  out.min_p = pick(fields.min_p, defaults.min_p);
  out.frequency_penalty = pick(fields.frequency_penalty, 0);
  out.presence_penalty = pick(fields.presence_penalty, 0);
  out.repetition_penalty = static_cast<float>(std::max(
      fields.repetition_penalty.value_or(defaults.repetition_penalty), kRepetitionPenaltyMin));
  out.seed = fields.seed ? static_cast<uint64_t>(*fields.seed) : seed;
  out.logit_bias = fields.logit_bias;
  if (endpoint == kChat && fields.logprobs.value_or(false)) {
    out.top_logprobs = static_cast<int32_t>(fields.top_logprobs.value_or(0));
  }
  if (endpoint == kCompletions && fields.completion_logprobs) {
    out.top_logprobs = static_cast<int32_t>(*fields.completion_logprobs);
  }
  return out;
}

std::vector<wire::TokenId> stop_ids(const RequestFields& fields,
                                    const GenerationDefaults& defaults) {
  std::vector<wire::TokenId> ids = fields.stop_token_ids;
  if (!fields.ignore_eos.value_or(false)) {
    ids.insert(ids.end(), defaults.eos_ids.begin(), defaults.eos_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// How many tokens may be generated; nothing fits: context_length_exceeded.
Failure answer_length(const RequestFields& fields, Endpoint endpoint, int64_t prompt, int64_t limit,
                      int64_t& out) {
  const std::optional<int64_t> asked =
      fields.max_completion_tokens ? fields.max_completion_tokens : fields.max_tokens;
  const int64_t room = limit - prompt;
  if (room < 1) {
    return context_overflow(
        fmt::format("the context holds {} tokens and the prompt has {}, which leaves no room for "
                    "an answer; shorten the prompt",
                    limit, prompt));
  }
  if (asked && *asked > room) {
    return context_overflow(
        fmt::format("the context holds {} tokens; the prompt has {} and {} more were requested; "
                    "ask for at most {} or shorten the prompt",
                    limit, prompt, *asked, room));
  }
  const int64_t otherwise =
      endpoint == kCompletions ? std::min(room, kCompletionTokensDefault) : room;
  out = asked.value_or(otherwise);
  return std::nullopt;
}

}  // namespace

int64_t context_limit(const wire::GenerateLimits& limits) {
  if (limits.cache_tokens <= 0) return limits.context_tokens;
  return std::min(limits.context_tokens, limits.cache_tokens);
}

Failure plan_generation(const RequestFields& fields, Endpoint endpoint,
                        std::vector<wire::TokenId> prompt, const GenerationDefaults& defaults,
                        const wire::GenerateLimits& limits, uint64_t seed, GenerationPlan& out) {
  const std::string prompt_field = endpoint == kChat ? "messages" : "prompt";
  if (prompt.empty()) {
    return invalid_value(prompt_field, prompt_field + " must give at least one token");
  }
  for (const wire::TokenId id : prompt) {
    if (id < 0 || id >= limits.vocabulary_size) {
      return invalid_value(prompt_field, fmt::format("{} holds a token that the model has no "
                                                     "embedding for: id {}",
                                                     prompt_field, id));
    }
  }
  int64_t max_tokens = 0;
  if (Failure failure = answer_length(fields, endpoint, static_cast<int64_t>(prompt.size()),
                                      context_limit(limits), max_tokens)) {
    return failure;
  }
  const int64_t min_tokens = fields.min_tokens.value_or(0);
  if (min_tokens > max_tokens) {
    return invalid_value("min_tokens",
                         fmt::format("min_tokens must be at most the {} tokens that may be "
                                     "generated, but {} was given",
                                     max_tokens, min_tokens));
  }
  out.request.prompt = std::move(prompt);
  out.request.sampling = sampling(fields, endpoint, defaults, seed);
  out.request.max_tokens = static_cast<int32_t>(max_tokens);
  out.request.min_tokens = static_cast<int32_t>(min_tokens);
  out.request.stop_ids = stop_ids(fields, defaults);
  out.output.stop = fields.stop;
  out.output.include_stop = fields.include_stop_str_in_output.value_or(false);
  out.output.skip_special = fields.skip_special_tokens.value_or(true);
  out.output.logprobs = out.request.sampling.top_logprobs >= 0;
  out.output.min_tokens = out.request.min_tokens;
  out.stream = fields.stream.value_or(false);
  out.include_usage = fields.include_usage.value_or(false);
  out.continuous_usage = fields.continuous_usage_stats.value_or(false);
  return std::nullopt;
}

base::Status GenerationDefaults::validate(int32_t vocabulary_size) const {
  const auto check = [](const char* name, double value, double min, double max) -> base::Status {
    if (std::isfinite(value) && value >= min && value <= max) return {};
    return base::invalid_argument(
        name,
        fmt::format("the model's default {} = {} is outside {} to {}", name, value, min, max));
  };
  BH_TRY(check("temperature", temperature, 0, 2));
  BH_TRY(check("top_p", top_p, kTopPMin, 1));
  BH_TRY(check("top_k", static_cast<double>(top_k), -1, 2147483647.0));
  BH_TRY(check("min_p", min_p, 0, 1));
  BH_TRY(check("repetition_penalty", repetition_penalty, kRepetitionPenaltyMin, 2));
  for (const wire::TokenId id : eos_ids) {
    BH_TRY(check("eos_token_id", id, 0, vocabulary_size - 1));
  }
  return {};
}

}  // namespace bulkhead::api
