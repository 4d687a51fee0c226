#include "api/errors.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "wire/faults.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kInvalidRequest = "invalid_request_error";

ApiError retriable(int status, std::string_view type, std::string_view code, std::string message) {
  return ApiError{status, type, code, std::move(message), {}, true};
}

}  // namespace

ApiError invalid_request(std::string_view code, std::string param, std::string message) {
  return ApiError{400, kInvalidRequest, code, std::move(message), std::move(param), false};
}

ApiError invalid_type(std::string param, std::string message) {
  return invalid_request("invalid_type", std::move(param), std::move(message));
}

ApiError invalid_value(std::string param, std::string message) {
  return invalid_request("invalid_value", std::move(param), std::move(message));
}

ApiError missing_parameter(std::string param, std::string message) {
  return invalid_request("missing_required_parameter", std::move(param), std::move(message));
}

ApiError unsupported_parameter(std::string param, std::string message) {
  return invalid_request("unsupported_parameter", std::move(param), std::move(message));
}

ApiError context_overflow(std::string message) {
  return invalid_request("context_length_exceeded", {}, std::move(message));
}

ApiError too_large(std::string param, std::string message) {
  return ApiError{413,  kInvalidRequest, "request_too_large", std::move(message), std::move(param),
                  false};
}

ApiError draining() {
  return retriable(503, "overloaded_error", "draining",
                   "the server is shutting down and takes no new requests; try another one");
}

ApiError model_not_found(std::string_view served, std::string param) {
  return ApiError{404,
                  "not_found_error",
                  "model_not_found",
                  fmt::format("this server serves the model '{}' only", served),
                  std::move(param),
                  false};
}

ApiError not_implemented(std::string message) {
  return ApiError{501, kInvalidRequest, "not_implemented", std::move(message), {}, false};
}

ApiError model_loading() {
  return retriable(503, "server_error", "model_loading",
                   "the model is loading; try again in a moment");
}

ApiError internal_error() {
  return ApiError{500, "server_error", "internal_error", "the server failed on this request", {},
                  true};
}

namespace {

// One of the stable codes, never the text that came with it.
ApiError from_fault(const base::Error& error) {
  for (const std::string_view code : {wire::kWorkerLost, wire::kTransferFailed, wire::kIntegrity}) {
    if (error.field == code) return retriable(503, "server_error", code, error.message);
  }
  return internal_error();
}

}  // namespace

ApiError from_submit(const base::Error& error) {
  switch (error.code) {
    case base::ErrorCode::kResourceExhausted:
      return retriable(429, "rate_limit_error", "queue_full",
                       "the waiting queue is full; try again shortly: " + error.message);
    case base::ErrorCode::kUnavailable:
      return draining();
    case base::ErrorCode::kInvalidArgument:
      return context_overflow(error.message);
    case base::ErrorCode::kUnsupported:
      return unsupported_parameter(error.field, error.message);
    default:
      return internal_error();
  }
}

ApiError from_constraint(const base::Error& error) {
  const bool of_tool = error.field.starts_with("tools");
  const std::string param =
      of_tool ? error.field + ".function.parameters" : "response_format.json_schema.schema";
  const std::string message = fmt::format("{}: {}", param, error.message);
  switch (error.code) {
    case base::ErrorCode::kInvalidArgument:
      return invalid_value(param, message);
    case base::ErrorCode::kUnsupported:
      return unsupported_parameter(param, message);
    case base::ErrorCode::kResourceExhausted:
      return retriable(429, "rate_limit_error", "queue_full", error.message);
    case base::ErrorCode::kUnavailable:
      return draining();
    default:
      return internal_error();
  }
}

ApiError from_finish(const wire::FinishEvent& event) {
  if (event.reason == wire::FinishReason::kDeadline) {
    return ApiError{408,
                    "server_error",
                    "deadline_exceeded",
                    "the request took longer than the server allows; ask for fewer tokens",
                    {},
                    false};
  }
  if (event.reason == wire::FinishReason::kCancelled) return draining();
  if (!event.error) return internal_error();
  if (wire::is_fault(*event.error)) return from_fault(*event.error);
  switch (event.error->code) {
    case base::ErrorCode::kResourceExhausted:
      return retriable(503, "overloaded_error", "capacity_exceeded", event.error->message);
    case base::ErrorCode::kUnavailable:
      return draining();
    default:
      return retriable(500, "server_error", "generation_failed", event.error->message);
  }
}

std::string error_body(const ApiError& error, std::string_view request_id) {
  base::JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").value(error.message);
  json.key("type").value(error.type);
  json.key("param");
  error.param.empty() ? json.null() : json.value(error.param);
  json.key("code").value(error.code);
  json.key("retriable").value(error.retriable);
  json.key("request_id").value(request_id);
  json.end_object().end_object();
  return std::move(json).take();
}

http::Response error_response(const ApiError& error, std::string_view request_id) {
  http::Response response;
  response.status = error.status;
  if (error.retriable) {
    response.headers.push_back({"Retry-After", "1"});
    response.headers.push_back({"retry-after-ms", "1000"});
    response.headers.push_back({"x-should-retry", "true"});
  } else if (error.status == 408 || error.status >= 500) {
    // Clients retry these by themselves, but the same request would end the same way.
    response.headers.push_back({"x-should-retry", "false"});
  }
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  response.body = error_body(error, request_id);
  return response;
}

}  // namespace bulkhead::api
