#include "api/request/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/messages.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

using F = RequestFields;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kInt32Min = std::numeric_limits<int32_t>::min();
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

constexpr AcceptedRule kForTheClient{"not used and not logged"};
constexpr RefusedRule kNoGrammar{"use response_format instead"};

constexpr FieldSpec kFields[] = {
    {"messages", kChat, true, CustomRule{"array", "at least 1 message", read_messages}, "required"},
    {"prompt", kCompletions, true,
     CustomRule{"string or array", "a text, token ids, or up to 128 of either", read_prompt},
     "required"},
    {"model", kBoth, false, CustomRule{"string", "the served model", read_model},
     "the served model"},
    {"max_completion_tokens", kChat, false, IntegerRule{1, kInt32Max, &F::max_completion_tokens},
     "rest of the context"},
    {"max_tokens", kChat, false, IntegerRule{1, kInt32Max, &F::max_tokens}, "rest of the context"},
    {"max_tokens", kCompletions, false, IntegerRule{0, kInt32Max, &F::max_tokens}, "16"},
    {"min_tokens", kBoth, false, IntegerRule{0, kInt32Max, &F::min_tokens}, "0"},
    {"temperature", kBoth, false, NumberRule{0, 2, false, &F::temperature}, "model"},
    {"top_p", kBoth, false, NumberRule{0, 1, true, &F::top_p}, "model"},
    {"top_k", kBoth, false, IntegerRule{-1, kInt32Max, &F::top_k}, "model"},
    {"min_p", kBoth, false, NumberRule{0, 1, false, &F::min_p}, "model"},
    {"frequency_penalty", kBoth, false, NumberRule{-2, 2, false, &F::frequency_penalty}, "0"},
    {"presence_penalty", kBoth, false, NumberRule{-2, 2, false, &F::presence_penalty}, "0"},
    {"repetition_penalty", kBoth, false, NumberRule{0, 2, true, &F::repetition_penalty}, "model"},
    {"seed", kBoth, false, IntegerRule{kInt64Min, kInt64Max, &F::seed}, "random"},
    {"logit_bias", kBoth, false,
     CustomRule{"object", "token id -> number, up to 1024 entries", read_logit_bias}, "none"},
    {"stop", kBoth, false,
     CustomRule{"string or array", "up to 16 strings of 1 to 1024 bytes", read_stop}, "none"},
    {"stop_token_ids", kBoth, false,
     CustomRule{"array", "up to 256 token ids", read_stop_token_ids}, "none"},
    {"include_stop_str_in_output", kBoth, false, BoolRule{&F::include_stop_str_in_output}, "false"},
    {"ignore_eos", kBoth, false, BoolRule{&F::ignore_eos}, "false"},
    {"skip_special_tokens", kBoth, false, BoolRule{&F::skip_special_tokens}, "true"},
    {"n", kBoth, false, IntegerRule{1, 128, &F::n}, "1"},
    {"best_of", kCompletions, false, IntegerRule{1, 20, &F::best_of}, "1"},
    {"stream", kBoth, false, BoolRule{&F::stream}, "false"},
    {"stream_options", kBoth, false,
     CustomRule{"object", "include_usage, continuous_usage_stats", read_stream_options}, "none"},
    {"logprobs", kChat, false, BoolRule{&F::logprobs}, "false"},
    {"top_logprobs", kChat, false, IntegerRule{0, 20, &F::top_logprobs}, "0"},
    {"logprobs", kCompletions, false, IntegerRule{0, 20, &F::completion_logprobs}, "none"},
    {"echo", kCompletions, false, BoolRule{&F::echo}, "false"},
    {"prompt_logprobs", kBoth, false, IntegerRule{0, 20, &F::prompt_logprobs}, "none"},
    {"return_token_ids", kBoth, false, BoolRule{&F::return_token_ids}, "false"},
    {"return_tokens_as_token_ids", kBoth, false, BoolRule{&F::return_tokens_as_token_ids}, "false"},
    {"cache_salt", kBoth, false, CustomRule{"string", "1 to 256 bytes", read_cache_salt}, "none"},
    {"cache_prompt", kBoth, false, BoolRule{&F::cache_prompt}, "true"},
    {"priority", kBoth, false, IntegerRule{kInt32Min, kInt32Max, &F::priority}, "0"},
    {"deadline_ms", kBoth, false, IntegerRule{1, kDeadlineMillisecondsMax, &F::deadline_ms},
     "none"},
    {"request_id", kBoth, false,
     CustomRule{"string", "1 to 128 of letters, digits, -_.:", read_request_id}, "header"},
    {"rid", kBoth, false, CustomRule{"string", "1 to 128 of letters, digits, -_.:", read_rid},
     "header"},
    {"options", kBoth, false, CustomRule{"object", "rejectIfBusy", read_options}, "none"},
    {"service_tier", kBoth, false, CustomRule{"string", "any", read_service_tier}, "none"},
    {"response_format", kBoth, false,
     CustomRule{"object", "text, json_object, json_schema", read_response_format}, "text"},
    {"tools", kChat, false, CustomRule{"array", "1 to 128 functions", read_tools}, "none"},
    {"tool_choice", kChat, false,
     CustomRule{"string or object", "none, auto, required, a named function", read_tool_choice},
     "auto"},
    {"parallel_tool_calls", kChat, false, BoolRule{&F::parallel_tool_calls}, "true"},
    {"reasoning_effort", kChat, false,
     CustomRule{"string", "none, minimal, low, medium, high, xhigh, max", read_reasoning_effort},
     "template"},
    {"thinking", kChat, false,
     CustomRule{"object or boolean", "type, keep, effort, clear_thinking", read_thinking},
     "template"},
    {"enable_thinking", kChat, false, BoolRule{&F::enable_thinking}, "template"},
    {"separate_reasoning", kChat, false, BoolRule{&F::separate_reasoning}, "true"},
    {"stream_reasoning", kChat, false, BoolRule{&F::stream_reasoning}, "true"},
    {"include_reasoning", kChat, false, BoolRule{&F::include_reasoning}, "true"},
    {"chat_template_kwargs", kChat, false,
     CustomRule{"object", "variables for the chat template", read_chat_template_kwargs}, "none"},
    {"add_generation_prompt", kChat, false, BoolRule{&F::add_generation_prompt}, "true"},
    {"continue_final_message", kChat, false, BoolRule{&F::continue_final_message}, "false"},
    {"chat_template", kChat, false,
     RefusedRule{"the template always comes from the model, never from a request"}, "none"},
    {"functions", kChat, false, RefusedRule{"use tools instead"}, "none"},
    {"function_call", kChat, false, RefusedRule{"use tool_choice instead"}, "none"},
    {"echo", kChat, false, RefusedRule{"only /v1/completions can echo its prompt"}, "false"},
    {"suffix", kCompletions, false, RefusedRule{"insertion is not part of this build"}, "none"},
    {"guided_json", kBoth, false, kNoGrammar, "none"},
    {"guided_regex", kBoth, false, kNoGrammar, "none"},
    {"guided_choice", kBoth, false, kNoGrammar, "none"},
    {"guided_grammar", kBoth, false, kNoGrammar, "none"},
    {"structured_outputs", kBoth, false, kNoGrammar, "none"},
    {"use_beam_search", kBoth, false, RefusedRule{"beam search is not part of this build"},
     "false"},
    {"user", kBoth, false, kForTheClient, "none"},
    {"metadata", kBoth, false, kForTheClient, "none"},
    {"safety_identifier", kBoth, false, kForTheClient, "none"},
    {"store", kBoth, false, AcceptedRule{"nothing is stored"}, "none"},
    {"prompt_cache_key", kBoth, false, AcceptedRule{"cached prompts are found by their tokens"},
     "none"},
    {"spaces_between_special_tokens", kBoth, false, AcceptedRule{"tokens carry their own spaces"},
     "none"},
};

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

Failure read_field(const FieldSpec& field, json::value& value, const DecodeContext& context,
                   RequestFields& out) {
  const std::string_view name = field.name;
  return std::visit(
      Overloaded{
          [&](const NumberRule& rule) -> Failure {
            return read_number(value, name, rule, (out.*rule.to).emplace());
          },
          [&](const IntegerRule& rule) -> Failure {
            return read_integer(value, name, rule.min, rule.max, (out.*rule.to).emplace());
          },
          [&](const BoolRule& rule) -> Failure {
            return read_bool(value, name, (out.*rule.to).emplace());
          },
          [&](const CustomRule& rule) -> Failure { return rule.read(value, context, out); },
          [&](const RefusedRule& rule) -> Failure {
            if (value.is_bool() && !value.get_bool()) return std::nullopt;
            return unsupported_parameter(std::string(name),
                                         fmt::format("{} is not supported: {}", name, rule.reason));
          },
          [](const AcceptedRule&) -> Failure { return std::nullopt; },
      },
      field.rule);
}

// Rules that name two fields.
Failure check_together(const RequestFields& fields) {
  if (fields.stream_options && !fields.stream.value_or(false)) {
    return invalid_value("stream_options", "stream_options needs stream to be true");
  }
  if (fields.top_logprobs && !fields.logprobs.value_or(false)) {
    return invalid_value("top_logprobs", "top_logprobs needs logprobs to be true");
  }
  const auto prompts = static_cast<int64_t>(std::max<size_t>(fields.prompts.size(), 1));
  if (prompts * fields.n.value_or(1) > kChoicesMax) {
    return invalid_value("n", fmt::format("n times the number of prompts must be at most {}, but "
                                          "{} times {} was given",
                                          kChoicesMax, *fields.n, prompts));
  }
  if (fields.best_of.value_or(1) != 1) {
    return unsupported_parameter(
        "best_of",
        fmt::format("best_of must be 1 in this build, but {} was given", *fields.best_of));
  }
  if (fields.max_tokens == 0 && !fields.echo.value_or(false)) {
    return invalid_value("max_tokens",
                         "max_tokens must be at least 1 unless echo is true, but 0 was given");
  }
  if (fields.prompt_logprobs && fields.stream.value_or(false)) {
    return invalid_value("prompt_logprobs", "prompt_logprobs cannot be streamed; leave stream out");
  }
  const bool continues = fields.continue_final_message.value_or(false) || fields.partial;
  if (continues && fields.add_generation_prompt.value_or(false)) {
    return invalid_value("add_generation_prompt",
                         "add_generation_prompt and continue_final_message exclude each other");
  }
  return std::nullopt;
}

std::string integer_limit(int64_t limit) {
  if (limit == kInt32Max) return "2^31-1";
  if (limit == kInt32Min) return "-2^31";
  if (limit == kInt64Min) return "-2^63";
  if (limit == kInt64Max) return "2^63-1";
  return fmt::format("{}", limit);
}

}  // namespace

std::span<const FieldSpec> field_table() { return kFields; }

std::string type_text(const FieldSpec& field) {
  return std::visit(Overloaded{
                        [](const NumberRule&) { return std::string("number"); },
                        [](const IntegerRule&) { return std::string("integer"); },
                        [](const BoolRule&) { return std::string("boolean"); },
                        [](const CustomRule& rule) { return std::string(rule.type); },
                        [](const RefusedRule&) { return std::string("refused"); },
                        [](const AcceptedRule&) { return std::string("accepted"); },
                    },
                    field.rule);
}

std::string range_text(const FieldSpec& field) {
  return std::visit(Overloaded{
                        [](const NumberRule& rule) {
                          return fmt::format("{}{} to {}", rule.above_min ? "above " : "", rule.min,
                                             rule.max);
                        },
                        [](const IntegerRule& rule) {
                          return integer_limit(rule.min) + " to " + integer_limit(rule.max);
                        },
                        [](const BoolRule&) { return std::string("true, false"); },
                        [](const CustomRule& rule) { return std::string(rule.range); },
                        [](const RefusedRule& rule) { return std::string(rule.reason); },
                        [](const AcceptedRule& rule) { return std::string(rule.reason); },
                    },
                    field.rule);
}

Failure decode_fields(json::object& body, Endpoint endpoint, const DecodeContext& context,
                      RequestFields& out) {
  for (const FieldSpec& field : kFields) {
    if ((field.endpoints & endpoint) == 0) continue;
    json::value* value = body.if_contains(json::string_view(field.name.data(), field.name.size()));
    if (value == nullptr || value->is_null()) {
      if (!field.required) continue;
      return missing_parameter(std::string(field.name), fmt::format("{} is required", field.name));
    }
    if (Failure failure = read_field(field, *value, context, out)) return failure;
  }
  return check_together(out);
}

}  // namespace bulkhead::api
