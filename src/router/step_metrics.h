// What the router counts about steps. Figures of requests are the API's, taken from FinishEvents.
//
// Threads: recording on the step thread, scraping on any.
#pragma once

#include <chrono>

#include "telemetry/metrics.h"
#include "wire/pools.h"

namespace bulkhead::router {

// Of one pool.
class StepMetrics {
 public:
  StepMetrics(telemetry::Registry& registry, const char* pool);
  // Rounds in which no sequence ran are not steps, whatever else there was to wait for.
  void record(const wire::StepReport& report, std::chrono::nanoseconds time);

 private:
  telemetry::Histogram& seconds_;
  telemetry::Counter& failed_;
};

// Of the router itself: what a round costs besides the pools' steps.
class SchedulerMetrics {
 public:
  explicit SchedulerMetrics(telemetry::Registry& registry);
  void record(std::chrono::nanoseconds between_steps) {
    seconds_.observe(std::chrono::duration<double>(between_steps).count());
  }

 private:
  telemetry::Histogram& seconds_;
};

}  // namespace bulkhead::router
