#include "api/front_door.h"

#include <fmt/format.h>

#include <utility>

#include "api/integrity_route.h"
#include "api/request/field_readers.h"
#include "api/request_log.h"
#include "api/timing_headers.h"

namespace bulkhead::api {
namespace {

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  if (content_type.size() < kJson.size()) return false;
  for (size_t i = 0; i < kJson.size(); ++i) {
    const char c = content_type[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower != kJson[i]) return false;
  }
  const std::string_view rest = content_type.substr(kJson.size());
  return rest.empty() || rest.front() == ';' || rest.front() == ' ';
}

ApiError not_found(std::string message) {
  return ApiError{404, "not_found_error", "not_found", std::move(message), {}, false};
}

ApiError method_not_allowed(std::string_view methods) {
  return ApiError{405,
                  "invalid_request_error",
                  "method_not_allowed",
                  fmt::format("this endpoint takes {} requests", methods),
                  {},
                  false};
}

ApiError unsupported_media_type() {
  return ApiError{415,
                  "invalid_request_error",
                  "unsupported_media_type",
                  "the body must be JSON: send the header 'Content-Type: application/json'",
                  {},
                  false};
}

}  // namespace

FrontDoor::FrontDoor(FrontDoorDeps deps, KeyOptions keys)
    : deps_(std::move(deps)), options_(std::move(keys)), keys_(options_, secret_) {}

std::optional<Visit> FrontDoor::admit(http::Request request,
                                      std::shared_ptr<http::ResponseWriter> writer) {
  Visit visit;
  visit.arrived = deps_.clock.now();
  const std::string_view id = request.header("x-request-id");
  visit.request_id = is_request_id(id)
                         ? std::string(id)
                         : fmt::format("req-{:016x}{:016x}", deps_.entropy(), deps_.entropy());
  visit.request = std::move(request);
  visit.writer = std::move(writer);
  visit.route = find_route(visit.request.path).spec;
  if (const Failure failure = check(visit)) {
    refuse(visit, *failure);
    return std::nullopt;
  }
  return visit;
}

// The checks that come before the body is looked at.
Failure FrontDoor::check(Visit& visit) const {
  const RouteSpec* route = visit.route;
  if (route == nullptr || route->access != Access::kOpen) {
    if (Failure failure = keys_.check(visit.request, visit.caller)) return failure;
  }
  if (route == nullptr) {
    return not_found("there is no such endpoint; docs/api.md lists those there are");
  }
  if (!takes_method(*route, visit.request.method)) return method_not_allowed(route->methods);
  if (route->access == Access::kAdmin) {
    if (Failure failure = keys_.check_admin(visit.caller)) return failure;
  }
  if (route->takes_json && !is_json(visit.request.header("content-type"))) {
    return unsupported_media_type();
  }
  return std::nullopt;
}

void FrontDoor::respond(const Visit& visit, http::Response response) {
  const base::Nanoseconds since_arrival = deps_.clock.now() - visit.arrived;
  deps_.responses.count(visit.id(), response.status);
  log_answered(deps_.logger, visit.request_id, visit.id(), response.status, since_arrival);
  response.headers.push_back({"x-request-id", visit.request_id});
  response.headers.push_back(processing_header(since_arrival));
  if (const auto header = integrity_header(deps_.integrity)) response.headers.push_back(*header);
  visit.writer->send(std::move(response));
}

void FrontDoor::refuse(const Visit& visit, const ApiError& error) {
  http::Response response = error_response(error, visit.request_id);
  if (error.status == 405) {
    response.headers.push_back({"Allow", std::string(visit.route->methods)});
  }
  respond(visit, std::move(response));
}

void FrontDoor::replace_keys(std::vector<std::string> keys) {
  options_.api_keys = std::move(keys);
  keys_ = KeyRing(options_, secret_);
}

http::Response json_body(std::string json) {
  http::Response response;
  response.body = std::move(json);
  return response;
}

http::Response metrics_response(const telemetry::Registry& registry) {
  http::Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = registry.expose();
  return response;
}

}  // namespace bulkhead::api
