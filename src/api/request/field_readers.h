// Readers of the structured request fields: strings, lists, maps, prompts, tools.
//
// Threads: pure functions. Invariants: a reader stores only values in range, names the exact JSON
// path of what it refuses, and is total: any JSON value gives a stored value or an error.
#pragma once

#include <boost/json/value.hpp>

#include "api/errors.h"
#include "api/request/request_fields.h"

namespace bulkhead::api {

inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopBytesMax = 1024;  // of one stop string
inline constexpr size_t kStopTokenIdsMax = 256;
inline constexpr size_t kLogitBiasMax = 1024;
inline constexpr size_t kToolsMax = 128;
inline constexpr size_t kCacheSaltMax = 256;  // bytes
inline constexpr size_t kRequestIdMax = 128;
inline constexpr int64_t kDeadlineMillisecondsMax = 86'400'000;  // a day

// Names of requests as clients may choose them: they go into headers and logs, so only plain
// characters pass.
bool is_request_id(std::string_view id);

Failure read_number(const boost::json::value& value, std::string_view path, const NumberRule& rule,
                    double& out);
// Accepts 5 and 5.0.
Failure read_integer(const boost::json::value& value, std::string_view path, int64_t min,
                     int64_t max, int64_t& out);
Failure read_bool(const boost::json::value& value, std::string_view path, bool& out);
Failure read_token_id(const boost::json::value& value, std::string_view path,
                      const DecodeContext& context, wire::TokenId& out);

using FieldReader = Failure(boost::json::value& value, const DecodeContext& context,
                            RequestFields& out);
FieldReader read_model;
FieldReader read_stop;
FieldReader read_stop_token_ids;
FieldReader read_logit_bias;
FieldReader read_stream_options;
FieldReader read_response_format;
FieldReader read_prompt;
FieldReader read_chat_template_kwargs;
FieldReader read_tools;
FieldReader read_tool_choice;
FieldReader read_reasoning_effort;
FieldReader read_thinking;
FieldReader read_cache_salt;
FieldReader read_request_id;
FieldReader read_rid;
FieldReader read_options;
FieldReader read_service_tier;

}  // namespace bulkhead::api
