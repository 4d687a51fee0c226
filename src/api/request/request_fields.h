// The table of request fields: name, type, range, default, and where the value goes. It drives the
// decoder, the boundary tests and the check that docs/api.md says the same.
//
// Threads: the table is constant. Invariants: null means absent for every optional field; a field
// that is not in the table is ignored; what `decode_fields` stores is in range.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/errors.h"
#include "wire/constraint.h"
#include "wire/types.h"

namespace bulkhead::api {

inline constexpr int64_t kChoicesMax = 128;  // of one request: prompts times n

using PromptInput = std::variant<std::string, std::vector<wire::TokenId>>;

enum class ToolChoice : uint8_t { kNone, kAuto, kRequired };

// The field `thinking`.
struct ThinkingWish {
  std::optional<bool> enabled;
  std::optional<bool> keep;  // the reasoning of earlier turns stays in the prompt
  std::string effort;        // goes before reasoning_effort
};

// Everything either endpoint accepts, still as the client said it.
struct RequestFields {
  std::optional<std::string> model;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> frequency_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> seed;
  std::vector<std::pair<wire::TokenId, float>> logit_bias;

  std::optional<int64_t> max_tokens;
  std::optional<int64_t> max_completion_tokens;  // chat only; goes before max_tokens
  std::optional<int64_t> min_tokens;
  std::optional<int64_t> n;
  std::optional<int64_t> best_of;
  std::vector<std::string> stop;
  std::vector<wire::TokenId> stop_token_ids;
  std::optional<bool> ignore_eos;
  std::optional<bool> skip_special_tokens;
  std::optional<bool> include_stop_str_in_output;
  std::optional<bool> echo;  // completions

  std::optional<bool> stream;
  bool stream_options = false;  // the object was there
  std::optional<bool> include_usage;
  std::optional<bool> continuous_usage_stats;
  std::optional<bool> logprobs;                // chat
  std::optional<int64_t> top_logprobs;         // chat; needs logprobs
  std::optional<int64_t> completion_logprobs;  // completions
  std::optional<int64_t> prompt_logprobs;
  std::optional<bool> return_token_ids;
  std::optional<bool> return_tokens_as_token_ids;

  std::optional<std::string> request_id;  // or `rid`, which goes after it
  std::optional<std::string> rid;
  std::optional<int64_t> priority;
  std::optional<int64_t> deadline_ms;
  bool reject_if_busy = false;
  bool service_tier = false;                            // one was asked for
  std::string cache_salt;                               // empty: none
  std::optional<wire::ConstraintSpec> response_format;  // none: any text
  std::optional<bool> cache_prompt;

  boost::json::value messages;  // chat: normalised, see messages.h
  boost::json::value tools;     // chat: validated, or null
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;  // the one function that must be called; empty: any
  std::optional<bool> parallel_tool_calls;
  boost::json::object chat_template_kwargs;
  std::string reasoning_effort;  // empty: the template's own
  std::optional<bool> enable_thinking;
  ThinkingWish thinking;
  std::optional<bool> separate_reasoning;
  std::optional<bool> stream_reasoning;
  std::optional<bool> include_reasoning;
  std::optional<bool> add_generation_prompt;
  std::optional<bool> continue_final_message;
  bool partial = false;  // the last message says so: the same

  std::vector<PromptInput> prompts;  // completions
};

struct DecodeContext {
  int32_t vocabulary_size = 0;
};

struct NumberRule {
  double min = 0;
  double max = 0;
  bool above_min = false;  // the minimum itself is outside
  std::optional<double> RequestFields::* to = nullptr;
};
struct IntegerRule {
  int64_t min = 0;
  int64_t max = 0;
  std::optional<int64_t> RequestFields::* to = nullptr;
};
struct BoolRule {
  std::optional<bool> RequestFields::* to = nullptr;
};
// Structured fields bring their own reader; the texts are for the documentation.
struct CustomRule {
  std::string_view type;
  std::string_view range;
  Failure (*read)(boost::json::value& value, const DecodeContext& context, RequestFields& out);
};
// A known field that would change the answer and that this build cannot honour: anything but null
// and false is refused, so that nobody gets an answer they did not ask for.
struct RefusedRule {
  std::string_view reason;
};
// A known field that clients send and that changes nothing here, whatever its value.
struct AcceptedRule {
  std::string_view reason;
};

using FieldRule =
    std::variant<NumberRule, IntegerRule, BoolRule, CustomRule, RefusedRule, AcceptedRule>;

enum Endpoint : uint8_t { kChat = 1, kCompletions = 2, kBoth = 3 };

struct FieldSpec {
  std::string_view name;
  uint8_t endpoints = kBoth;
  bool required = false;
  FieldRule rule;
  std::string_view default_text;  // for the documentation
};

std::span<const FieldSpec> field_table();
// "number", "0 to 2" as the documentation spells them.
std::string type_text(const FieldSpec& field);
std::string range_text(const FieldSpec& field);

// Reads every field of `body` that the endpoint knows. Values may be moved out of `body`.
Failure decode_fields(boost::json::object& body, Endpoint endpoint, const DecodeContext& context,
                      RequestFields& out);

}  // namespace bulkhead::api
