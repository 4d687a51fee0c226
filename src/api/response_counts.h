// Every answer of a process, counted by endpoint and status.
//
// Threads: constructed at start; counting from the I/O thread. Invariant: every pair is a sample
// from the start, so that a dashboard sees its first answer as a rise.
#pragma once

#include <map>
#include <string_view>
#include <utility>

#include "telemetry/metrics.h"

namespace bulkhead::api {

// Endpoints as answers are counted: one label value for each group.
enum class RouteId {
  kChat,
  kCompletions,
  kText,
  kModels,
  kHealth,
  kMetrics,
  kFacts,
  kControl,
  kOther
};
inline constexpr size_t kRouteCount = 9;
std::string_view to_string(RouteId route);

class ResponseCounts {
 public:
  explicit ResponseCounts(telemetry::Registry& registry);

  // One answer left, or (499) its client did before.
  void count(RouteId route, int status);

 private:
  std::map<std::pair<RouteId, int>, telemetry::Counter*> counters_;
};

}  // namespace bulkhead::api
