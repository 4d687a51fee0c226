#include "api/request/request_fields.h"

#include <fmt/format.h>

#include <limits>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/messages.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

using F = RequestFields;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

constexpr RefusedRule kNoGrammar{"constrained output is not part of this build"};

constexpr FieldSpec kFields[] = {
    {"messages", kChat, true, CustomRule{"array", "at least 1 message", read_messages}, "required"},
    {"prompt", kCompletions, true,
     CustomRule{"string or array", "a text, token ids, or an array of one text", read_prompt},
     "required"},
    {"model", kBoth, false, CustomRule{"string", "the served model", read_model},
     "the served model"},
    {"max_completion_tokens", kChat, false, IntegerRule{1, kInt32Max, &F::max_completion_tokens},
     "rest of the context"},
    {"max_tokens", kChat, false, IntegerRule{1, kInt32Max, &F::max_tokens}, "rest of the context"},
    {"max_tokens", kCompletions, false, IntegerRule{1, kInt32Max, &F::max_tokens}, "16"},
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
     CustomRule{"object", "token id -> -100 to 100, up to 1024 entries", read_logit_bias}, "none"},
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
    {"response_format", kBoth, false,
     CustomRule{"object", "{\"type\": \"text\"}", read_response_format}, "text"},
    {"tools", kChat, false, CustomRule{"array", "1 to 128 functions", read_tools}, "none"},
    {"tool_choice", kChat, false, CustomRule{"string", "none, auto", read_tool_choice}, "auto"},
    {"chat_template_kwargs", kChat, false,
     CustomRule{"object", "variables for the chat template", read_chat_template_kwargs}, "none"},
    {"add_generation_prompt", kChat, false, BoolRule{&F::add_generation_prompt}, "true"},
    {"continue_final_message", kChat, false,
     RefusedRule{"continuing the last message is not part of this build"}, "false"},
    {"chat_template", kChat, false,
     RefusedRule{"the template always comes from the model, never from a request"}, "none"},
    {"functions", kChat, false, RefusedRule{"use tools instead"}, "none"},
    {"function_call", kChat, false, RefusedRule{"use tool_choice instead"}, "none"},
    {"echo", kBoth, false, RefusedRule{"echoing the prompt is not part of this build"}, "false"},
    {"suffix", kCompletions, false, RefusedRule{"insertion is not part of this build"}, "none"},
    {"prompt_logprobs", kBoth, false,
     RefusedRule{"log-probabilities of the prompt are not part of this build"}, "none"},
    {"guided_json", kBoth, false, kNoGrammar, "none"},
    {"guided_regex", kBoth, false, kNoGrammar, "none"},
    {"guided_choice", kBoth, false, kNoGrammar, "none"},
    {"guided_grammar", kBoth, false, kNoGrammar, "none"},
    {"structured_outputs", kBoth, false, kNoGrammar, "none"},
    {"use_beam_search", kBoth, false, RefusedRule{"beam search is not part of this build"},
     "false"},
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
  if (fields.n.value_or(1) != 1) {
    return unsupported_parameter(
        "n", fmt::format("n must be 1 in this build, but {} was given", *fields.n));
  }
  if (fields.best_of.value_or(1) != 1) {
    return unsupported_parameter(
        "best_of",
        fmt::format("best_of must be 1 in this build, but {} was given", *fields.best_of));
  }
  return std::nullopt;
}

std::string integer_limit(int64_t limit) {
  if (limit == kInt32Max) return "2^31-1";
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
