#include "api/request/generation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

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
  // An answer of a required form ends when it is complete; without an end it could not.
  if (!fields.ignore_eos.value_or(false) || fields.response_format) {
    ids.insert(ids.end(), defaults.eos_ids.begin(), defaults.eos_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// How many tokens may be generated; nothing fits: context_length_exceeded.
Failure answer_length(const RequestFields& fields, Endpoint endpoint, const std::string& name,
                      int64_t limit, PromptPlan& prompt) {
  const std::optional<int64_t> asked =
      fields.max_completion_tokens ? fields.max_completion_tokens : fields.max_tokens;
  const auto length = static_cast<int64_t>(prompt.ids.size());
  const int64_t room = limit - length;
  if (room < (asked == 0 ? 0 : 1)) {
    return context_overflow(
        fmt::format("the context holds {} tokens and {} has {}, which leaves no room for an "
                    "answer; shorten the prompt",
                    limit, name, length));
  }
  if (asked && *asked > room) {
    return context_overflow(
        fmt::format("the context holds {} tokens; {} has {} and {} more were requested; ask for "
                    "at most {} or shorten the prompt",
                    limit, name, length, *asked, room));
  }
  const int64_t otherwise =
      endpoint == kCompletions ? std::min(room, kCompletionTokensDefault) : room;
  prompt.max_tokens = static_cast<int32_t>(asked.value_or(otherwise));
  const int64_t min_tokens = fields.min_tokens.value_or(0);
  if (min_tokens > prompt.max_tokens) {
    return invalid_value("min_tokens",
                         fmt::format("min_tokens must be at most the {} tokens that may be "
                                     "generated, but {} was given",
                                     prompt.max_tokens, min_tokens));
  }
  return std::nullopt;
}

Failure check_ids(const PromptPlan& prompt, const std::string& field, int32_t vocabulary) {
  if (prompt.ids.empty()) return invalid_value(field, field + " must give at least one token");
  for (const wire::TokenId id : prompt.ids) {
    if (id < 0 || id >= vocabulary) {
      return invalid_value(
          field,
          fmt::format("{} holds a token that the model has no embedding for: id {}", field, id));
    }
  }
  return std::nullopt;
}

// All choices are submitted together, so together they must fit the server's queue.
Failure check_choices(size_t prompts, int64_t n, const wire::GenerateLimits& limits) {
  const uint64_t choices = prompts * static_cast<uint64_t>(n);
  const uint64_t most = uint64_t{limits.running_max} + limits.queued_max;
  if (choices <= most) return std::nullopt;
  return invalid_value(n > 1 ? "n" : "prompt",
                       fmt::format("the server takes at most {} choices at once, but prompts times "
                                   "n is {}; send fewer in one request",
                                   most, choices));
}

OutputOptions output_options(const RequestFields& fields, Endpoint endpoint, bool logprobs) {
  OutputOptions out;
  out.stop = fields.stop;
  out.include_stop = fields.include_stop_str_in_output.value_or(false);
  out.skip_special = fields.skip_special_tokens.value_or(true);
  out.logprobs = logprobs;
  // Clients of the legacy form count on one entry per token.
  out.every_record = endpoint == kCompletions;
  out.token_ids = fields.return_token_ids.value_or(false);
  out.min_tokens = static_cast<int32_t>(fields.min_tokens.value_or(0));
  return out;
}

}  // namespace

int64_t context_limit(const wire::GenerateLimits& limits) {
  if (limits.cache_tokens <= 0) return limits.context_tokens;
  return std::min(limits.context_tokens, limits.cache_tokens);
}

uint64_t choice_seed(uint64_t seed, int32_t number) {
  if (number == 0) return seed;
  // SplitMix64's finalizer: neighbouring numbers get unrelated seeds.
  uint64_t x = seed + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(number);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

Failure plan_generation(const RequestFields& fields, Endpoint endpoint,
                        std::vector<PromptPlan> prompts, const GenerationDefaults& defaults,
                        const wire::GenerateLimits& limits, uint64_t seed, GenerationPlan& out) {
  const int64_t n = fields.n.value_or(1);
  if (Failure failure = check_choices(prompts.size(), n, limits)) return failure;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const bool one = prompts.size() == 1;
    const std::string field = endpoint == kChat ? "messages"
                              : one             ? "prompt"
                                                : fmt::format("prompt[{}]", i);
    if (Failure failure = check_ids(prompts[i], field, limits.vocabulary_size)) return failure;
    if (Failure failure = answer_length(fields, endpoint, one ? "the prompt" : field,
                                        context_limit(limits), prompts[i])) {
      return failure;
    }
  }
  out.prompts = std::move(prompts);
  out.n = static_cast<int32_t>(n);
  out.request.sampling = sampling(fields, endpoint, defaults, seed);
  out.request.min_tokens = static_cast<int32_t>(fields.min_tokens.value_or(0));
  out.request.priority = static_cast<int32_t>(fields.priority.value_or(0));
  out.request.stop_ids = stop_ids(fields, defaults);
  out.constraint = fields.response_format;
  if (out.constraint && out.request.stop_ids.empty()) {
    return unsupported_parameter("response_format",
                                 "this model has no end token; give one in stop_token_ids");
  }
  const bool logprobs = out.request.sampling.top_logprobs >= 0;
  out.output = output_options(fields, endpoint, logprobs);
  out.echo = fields.echo.value_or(false);
  out.prompt_logprobs = static_cast<int32_t>(fields.prompt_logprobs.value_or(-1));
  out.request.prompt_logprobs =
      std::max(out.prompt_logprobs, out.echo && logprobs ? out.request.sampling.top_logprobs : -1);
  // Who scores texts cuts the last entry off as the generated one, so an end token must have one
  // too. The generator does not send end tokens: it is not told, and the answer ends here.
  if (out.echo && logprobs && out.request.min_tokens == 0 && !out.constraint) {
    out.output.end_ids = std::exchange(out.request.stop_ids, {});
  }
  out.token_id_names = fields.return_tokens_as_token_ids.value_or(false);
  out.service_tier = fields.service_tier;
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
