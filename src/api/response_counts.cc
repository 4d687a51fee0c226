#include "api/response_counts.h"

#include <array>
#include <string>

namespace bulkhead::api {
namespace {

// Every status the API can answer; 499 is a client that left before its answer, 0 the rest.
constexpr std::array<int, 16> kStatuses = {200, 400, 401, 403, 404, 405, 408, 412,
                                           413, 415, 429, 499, 500, 501, 503, 0};

}  // namespace

std::string_view to_string(RouteId route) {
  switch (route) {
    case RouteId::kChat:
      return "/v1/chat/completions";
    case RouteId::kCompletions:
      return "/v1/completions";
    case RouteId::kText:
      return "/tokenize";
    case RouteId::kModels:
      return "/v1/models";
    case RouteId::kHealth:
      return "/health";
    case RouteId::kMetrics:
      return "/metrics";
    case RouteId::kFacts:
      return "/server_info";
    case RouteId::kControl:
      return "/abort_request";
    case RouteId::kOther:
      return "other";
  }
  return "other";
}

ResponseCounts::ResponseCounts(telemetry::Registry& registry) {
  for (size_t route = 0; route < kRouteCount; ++route) {
    const auto id = static_cast<RouteId>(route);
    for (const int status : kStatuses) {
      const std::string text = status == 0 ? "other" : std::to_string(status);
      counters_[{id, status}] =
          &registry.counter("bulkhead_http_responses_total", "Answers by endpoint and status",
                            {{"endpoint", std::string(to_string(id))}, {"status", text}});
    }
  }
}

void ResponseCounts::count(RouteId route, int status) {
  auto found = counters_.find({route, status});
  if (found == counters_.end()) found = counters_.find({route, 0});
  found->second->add();
}

}  // namespace bulkhead::api
