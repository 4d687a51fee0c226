#include "api/request_log.h"

namespace bulkhead::api {
namespace {

double milliseconds(base::Nanoseconds time) { return base::to_seconds(time) * 1e3; }

}  // namespace

void log_ended(base::Logger& logger, const EndedRequest& ended, const wire::FinishEvent& event) {
  logger.info("request ended", {{"request_id", ended.request_id},
                                {"route", std::string(to_string(ended.route))},
                                {"status", int64_t{ended.status}},
                                {"reason", std::string(ended.finish_reason)},
                                {"prompt_tokens", int64_t{ended.usage.prompt_tokens}},
                                {"cached_tokens", int64_t{ended.usage.cached_tokens}},
                                {"completion_tokens", int64_t{ended.usage.completion_tokens}},
                                {"preemptions", int64_t{event.preemptions}},
                                {"queue_ms", milliseconds(event.queue_time)},
                                {"prefill_ms", milliseconds(event.prefill_time)},
                                {"decode_ms", milliseconds(event.decode_time)},
                                {"total_ms", milliseconds(ended.since_arrival)}});
  if (event.error) {
    logger.warning("generation failed",
                   {{"request_id", ended.request_id}, {"error", event.error->message}});
  }
}

void log_answered(base::Logger& logger, std::string_view request_id, RouteId route, int status,
                  base::Nanoseconds since_arrival) {
  const std::initializer_list<base::LogField> fields = {{"request_id", std::string(request_id)},
                                                        {"route", std::string(to_string(route))},
                                                        {"status", int64_t{status}},
                                                        {"total_ms", milliseconds(since_arrival)}};
  const bool for_text = route == RouteId::kChat || route == RouteId::kCompletions;
  for_text ? logger.info("request refused", fields) : logger.debug("request answered", fields);
}

}  // namespace bulkhead::api
