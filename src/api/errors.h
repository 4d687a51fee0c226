// What goes wrong for a client, as one type with one writer for every route.
//
// Threads: plain values. Invariants: the body is always {"error":{message, type, param, code,
// retriable, request_id}}; `type` and `code` are stable strings listed in docs/api.md; messages
// name the limit and what was given, never an address, a path or another request's data.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/server.h"
#include "wire/generate.h"

namespace bulkhead::api {

struct ApiError {
  int status = 500;
  std::string_view type = "server_error";
  std::string_view code = "internal_error";
  std::string message;
  std::string param = {};  // JSON path of the culprit; empty: null
  bool retriable = false;  // the same request may succeed later
};

// Empty: all is well.
using Failure = std::optional<ApiError>;

ApiError invalid_request(std::string_view code, std::string param, std::string message);
ApiError invalid_type(std::string param, std::string message);
ApiError invalid_value(std::string param, std::string message);
ApiError missing_parameter(std::string param, std::string message);
ApiError unsupported_parameter(std::string param, std::string message);
ApiError context_overflow(std::string message);
ApiError too_large(std::string param, std::string message);
ApiError internal_error();
ApiError draining();
ApiError model_not_found(std::string_view served, std::string param);
ApiError not_implemented(std::string message);
// The first moments: the port answers, the model does not yet.
ApiError model_loading();

// A refusal of Generator::submit.
ApiError from_submit(const base::Error& error);
// A form of the answer that cannot be compiled.
ApiError from_constraint(const base::Error& error);
// A generation that ended otherwise than by stop or length.
ApiError from_finish(const wire::FinishEvent& event);

std::string error_body(const ApiError& error, std::string_view request_id);
// With Retry-After, retry-after-ms and x-should-retry where they help.
http::Response error_response(const ApiError& error, std::string_view request_id);

}  // namespace bulkhead::api
