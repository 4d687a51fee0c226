#include "router/step_log.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace bulkhead::router {
namespace {

constexpr std::chrono::seconds kInterval{1};
constexpr std::chrono::seconds kRateLasts{10};  // a rate from before tells nothing of now

}  // namespace

void StepLog::admitted(const wire::Admission& admission) {
  ++new_sequences_;
  cached_tokens_ += admission.cached_tokens;
}

bool StepLog::add(Interval& interval, const wire::StepReport& report,
                  std::chrono::nanoseconds now) {
  if (report.outcome == wire::StepOutcome::kIdle || report.sequences == 0) return false;
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
  if (logger_ != nullptr) write_prefill(scene);
  prefill_ = {};
  new_sequences_ = 0;
  cached_tokens_ = 0;
}

void StepLog::write_prefill(const LogScene& scene) {
  logger_->info(fmt::format(
      "Prefill batch, #new-seq: {}, #new-token: {}, #cached-token: {}, token usage: {:.2f}, "
      "#running-req: {}, #queue-req: {}, input throughput (token/s): {:.2f}",
      new_sequences_, prefill_.tokens, cached_tokens_, scene.usage, scene.running, scene.queued,
      rate(prefill_, scene.now)));
}

void StepLog::decoded(const wire::StepReport& report, const LogScene& scene) {
  if (!add(decode_, report, scene.now)) return;
  const double tokens_per_second = rate(decode_, scene.now);
  decode_rate_.store(tokens_per_second, std::memory_order_relaxed);
  decode_rate_at_.store(scene.now.count(), std::memory_order_relaxed);
  decode_ = {};
  if (logger_ == nullptr) return;
  logger_->info(fmt::format(
      "Decode batch, #running-req: {}, #token: {}, token usage: {:.2f}, gen throughput (token/s): "
      "{:.2f}, #queue-req: {}",
      report.sequences, scene.tokens_used, scene.usage, tokens_per_second, scene.queued));
}

double StepLog::decode_rate(std::chrono::nanoseconds now) const {
  const std::chrono::nanoseconds at(decode_rate_at_.load(std::memory_order_relaxed));
  return now - at > kRateLasts ? 0.0 : decode_rate_.load(std::memory_order_relaxed);
}

}  // namespace bulkhead::router
