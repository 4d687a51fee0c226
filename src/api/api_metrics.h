// What the API counts, under the names that public dashboards and routers read.
//
// Threads: constructed at start; recording from the I/O thread. Invariants: every figure about a
// generation is taken once, from its terminal record, so sums over finish reasons agree between
// counters and histograms; gauges are read from the generator at scrape time.
#pragma once

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "api/answer/answer_format.h"
#include "base/clock.h"
#include "telemetry/metrics.h"
#include "wire/generate.h"

namespace bulkhead::api {

enum class RouteId { kChat, kCompletions, kModels, kHealth, kMetrics, kVersion, kOther };
inline constexpr size_t kRouteCount = 7;
std::string_view to_string(RouteId route);

// Label values of finished_reason.
inline constexpr std::array<std::string_view, 5> kFinishedReasons = {"stop", "length", "abort",
                                                                     "deadline", "error"};

class ApiMetrics {
 public:
  // `generator` must outlive the registry's last scrape.
  ApiMetrics(telemetry::Registry& registry, const wire::Generator& generator);

  // One answer left, or (499) its client did before.
  void count_response(RouteId route, int status);
  void first_token(base::Nanoseconds since_arrival);
  void next_token(base::Nanoseconds since_previous);
  // `reason` is one of kFinishedReasons.
  void finished(std::string_view reason, const wire::FinishEvent& event, const Usage& usage,
                base::Nanoseconds since_arrival, int32_t max_tokens);

 private:
  std::map<std::pair<RouteId, int>, telemetry::Counter*> responses_;
  std::map<std::string_view, telemetry::Counter*> reasons_;
  telemetry::Counter& prompt_tokens_;
  telemetry::Counter& cached_tokens_;
  telemetry::Counter& generation_tokens_;
  telemetry::Histogram& ttft_;
  telemetry::Histogram& itl_;
  telemetry::Histogram& e2e_;
  telemetry::Histogram& per_token_;
  telemetry::Histogram& queue_;
  telemetry::Histogram& prefill_;
  telemetry::Histogram& decode_;
  telemetry::Histogram& prompt_sizes_;
  telemetry::Histogram& generation_sizes_;
  telemetry::Histogram& max_tokens_;
};

}  // namespace bulkhead::api
