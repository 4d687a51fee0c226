#include "router/step_metrics.h"

namespace bulkhead::router {

StepMetrics::StepMetrics(telemetry::Registry& registry, const char* pool)
    : seconds_(registry.histogram(
          "bulkhead_step_seconds", "Time of one step of a pool",
          {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0},
          {{"pool", pool}})),
      failed_(registry.counter("bulkhead_steps_failed_total",
                               "Steps in which a sequence ended with an error of its own",
                               {{"pool", pool}})) {}

SchedulerMetrics::SchedulerMetrics(telemetry::Registry& registry)
    : seconds_(registry.histogram(
          "bulkhead_scheduler_seconds", "Time of a round spent between the pools' steps",
          {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2})) {}

void StepMetrics::record(const wire::StepReport& report, std::chrono::nanoseconds time) {
  if (report.outcome == wire::StepOutcome::kIdle) return;
  if (report.outcome == wire::StepOutcome::kFailed) failed_.add();
  if (report.sequences > 0) seconds_.observe(std::chrono::duration<double>(time).count());
}

}  // namespace bulkhead::router
