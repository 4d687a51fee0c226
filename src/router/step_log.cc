#include "router/step_log.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace bulkhead::router {
namespace {

constexpr std::chrono::seconds kInterval{1};

}  // namespace

void StepLog::admitted(const wire::Admission& admission) {
  ++new_sequences_;
  cached_tokens_ += admission.cached_tokens;
}

bool StepLog::add(Interval& interval, const wire::StepReport& report,
                  std::chrono::nanoseconds now) {
  if (logger_ == nullptr || report.outcome == wire::StepOutcome::kIdle) return false;
  if (interval.steps == 0) interval.since = now;
  ++interval.steps;
  interval.tokens += report.tokens;
  return now - interval.since >= kInterval;
}

double StepLog::rate(const Interval& interval, std::chrono::nanoseconds now) {
  return static_cast<double>(interval.tokens) / base::to_seconds(now - interval.since);
}

void StepLog::prefilled(const wire::StepReport& report, const LogScene& scene) {
  if (!add(prefill_, report, scene.now)) return;
  logger_->info(fmt::format(
      "Prefill batch, #new-seq: {}, #new-token: {}, #cached-token: {}, token usage: {:.2f}, "
      "#running-req: {}, #queue-req: {}, input throughput (token/s): {:.2f}",
      new_sequences_, prefill_.tokens, cached_tokens_, scene.usage, scene.running, scene.queued,
      rate(prefill_, scene.now)));
  prefill_ = {};
  new_sequences_ = 0;
  cached_tokens_ = 0;
}

void StepLog::decoded(const wire::StepReport& report, const LogScene& scene) {
  if (!add(decode_, report, scene.now)) return;
  logger_->info(fmt::format(
      "Decode batch, #running-req: {}, #token: {}, token usage: {:.2f}, gen throughput (token/s): "
      "{:.2f}, #queue-req: {}",
      report.sequences, scene.tokens_used, scene.usage, rate(decode_, scene.now), scene.queued));
  decode_ = {};
}

}  // namespace bulkhead::router
