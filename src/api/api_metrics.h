// What the API counts, under the names that public dashboards and routers read.
//
// Threads: constructed at start; recording from the I/O thread. Invariants: every figure about a
// generation is taken once, from its terminal record, so sums over finish reasons agree between
// counters and histograms; gauges are read from the generator at scrape time; a metric with two
// names is recorded once. docs/metrics.md lists every name.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "api/answer/answer_format.h"
#include "api/response_counts.h"
#include "base/clock.h"
#include "telemetry/metrics.h"
#include "wire/generate.h"

namespace bulkhead::api {

// Label values of finished_reason.
inline constexpr std::array<std::string_view, 5> kFinishedReasons = {"stop", "length", "abort",
                                                                     "deadline", "error"};

// Why a generation ended before its time.
enum class CancelCause { kDisconnect, kAbortRequest, kSlowReader, kDeadline, kShutdown };
inline constexpr size_t kCancelCauseCount = 5;
std::string_view to_string(CancelCause cause);

// How many requests are under way.
void register_running(telemetry::Registry& registry,
                      const std::function<wire::GeneratorStatus()>& status);
// The pages of one pool by state; `pages` is asked at every scrape.
void register_pages(telemetry::Registry& registry, const std::function<wire::PageGauges()>& pages,
                    const telemetry::Labels& labels);

class ApiMetrics {
 public:
  // `generator` must outlive the registry's last scrape.
  ApiMetrics(telemetry::Registry& registry, const wire::Generator& generator);

  ResponseCounts& responses() { return responses_; }
  // A request for text was accepted, with so many choices.
  void accepted(int64_t choices);
  void first_token(base::Nanoseconds since_arrival);
  void next_token(base::Nanoseconds since_previous);
  void cancelled(CancelCause cause);
  // The tool calls of an ended generation.
  void calls(const CallCounts& counts);
  // `reason` is one of kFinishedReasons.
  void finished(std::string_view reason, const wire::FinishEvent& event, const Usage& usage,
                base::Nanoseconds since_arrival, int32_t max_tokens);

 private:
  // Families of metrics, so that each is registered in one place.
  struct Counts {
    explicit Counts(telemetry::Registry& registry);
    telemetry::Counter& prompt_tokens;
    telemetry::Counter& cached_tokens;
    telemetry::Counter& generation_tokens;
    telemetry::Counter& requests;
    telemetry::Counter& aborted;
    telemetry::Counter& preemptions;
    telemetry::Counter& corrupted;
  };
  struct Times {
    explicit Times(telemetry::Registry& registry);
    telemetry::Histogram& first_token;
    telemetry::Histogram& next_token;
    telemetry::Histogram& whole;
    telemetry::Histogram& per_token;
    telemetry::Histogram& queue;
    telemetry::Histogram& prefill;
    telemetry::Histogram& decode;
    telemetry::Histogram& inference;
  };
  struct Shapes {
    Shapes(telemetry::Registry& registry, int32_t context_tokens);
    telemetry::Histogram& prompt;
    telemetry::Histogram& generation;
    telemetry::Histogram& max_tokens;
    telemetry::Histogram& choices;
  };
  void register_labelled(telemetry::Registry& registry);

  ResponseCounts responses_;
  std::map<std::string_view, telemetry::Counter*> reasons_;
  std::array<telemetry::Counter*, kCancelCauseCount> causes_{};
  std::array<telemetry::Counter*, 3> calls_{};  // complete, malformed, truncated
  Counts counts_;
  Times times_;
  Shapes shapes_;
};

}  // namespace bulkhead::api
