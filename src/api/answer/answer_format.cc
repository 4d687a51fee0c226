#include "api/answer/answer_format.h"

#include <algorithm>
#include <cmath>

namespace bulkhead::api {
namespace {

constexpr double kLogprobFloor = -9999.0;

}  // namespace

void write_usage(base::JsonWriter& json, const Usage& usage) {
  json.begin_object();
  json.key("prompt_tokens").value(usage.prompt_tokens);
  json.key("completion_tokens").value(usage.completion_tokens);
  json.key("total_tokens")
      .value(static_cast<int64_t>(usage.prompt_tokens) + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object();
  json.key("cached_tokens").value(usage.cached_tokens);
  json.end_object();
  json.key("completion_tokens_details").begin_object();
  json.key("reasoning_tokens").value(usage.reasoning_tokens);
  json.end_object().end_object();
}

void write_figures(base::JsonWriter& json, const Usage& usage) {
  json.key("usage");
  write_usage(json, usage);
  json.key("timings").begin_object();
  json.key("cache_n").value(usage.cached_tokens);
  json.key("prompt_n").value(usage.prompt_tokens - usage.cached_tokens);
  json.key("prompt_ms").value(usage.prefill_ms);
  json.key("predicted_n").value(usage.completion_tokens);
  json.key("predicted_ms").value(usage.decode_ms);
  json.end_object();
}

void write_ending(base::JsonWriter& json, const Outcome* outcome) {
  json.key("finish_reason");
  if (outcome == nullptr) {
    json.null();
    return;
  }
  json.value(outcome->finish_reason);
  json.key("stop_reason");
  if (outcome->stop_string) {
    json.value(*outcome->stop_string);
  } else if (outcome->stop_token_id) {
    json.value(*outcome->stop_token_id);
  } else {
    json.null();
  }
}

void write_head(base::JsonWriter& json, const AnswerHead& head, std::string_view object) {
  json.key("id").value(head.id);
  json.key("object").value(object);
  json.key("created").value(head.created);
  json.key("model").value(head.model);
  if (head.service_tier) json.key("service_tier").value("default");
}

void write_running_usage(base::JsonWriter& json, const AnswerHead& head,
                         const RunningUsage& usage) {
  if (!head.usage_in_chunks) return;
  json.key("usage");
  if (usage) {
    write_usage(json, *usage);
  } else {
    json.null();
  }
}

void write_ids(base::JsonWriter& json, std::span<const wire::TokenId> ids) {
  json.begin_array();
  for (const wire::TokenId id : ids) json.value(id);
  json.end_array();
}

void write_prompt_logprobs(base::JsonWriter& json, const AnswerHead& head, const ChoiceView& choice,
                           const text::Tokenizer& tokenizer) {
  if (head.prompt_logprobs < 0) return;
  const auto write = [&](wire::TokenId id, float logprob) {
    json.key(std::to_string(id)).begin_object();
    json.key("logprob").value(finite_logprob(logprob));
    json.key("decoded_token").value(tokenizer.token_bytes(id));
    json.end_object();
  };
  json.key("prompt_logprobs").begin_array().null();
  for (const wire::TokenEvent& token : choice.prompt_scores) {
    json.begin_object();
    write(token.token, token.logprob);
    for (const wire::TokenLogprob& other : top_of(token, head.prompt_logprobs)) {
      if (other.id != token.token) write(other.id, other.logprob);
    }
    json.end_object();
  }
  json.end_array();
}

std::string token_id_name(wire::TokenId id) { return "token_id:" + std::to_string(id); }

std::span<const wire::TokenLogprob> top_of(const wire::TokenEvent& event, int32_t count) {
  const size_t most = static_cast<size_t>(std::max(count, 0));
  return std::span(event.top_logprobs).first(std::min(most, event.top_logprobs.size()));
}

double finite_logprob(float logprob) {
  if (!std::isfinite(logprob)) return kLogprobFloor;
  return std::max(static_cast<double>(logprob), kLogprobFloor);
}

std::string usage_only_chunk(const AnswerHead& head, std::string_view object, const Usage& usage) {
  base::JsonWriter json;
  json.begin_object();
  write_head(json, head, object);
  json.key("choices").begin_array().end_array();
  write_figures(json, usage);
  json.end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::api
