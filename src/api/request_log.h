// The log line of a request: one when it has ended, whatever the end.
//
// Threads: the logger's. Invariants: no text of a client or a model is in it, only ids and figures;
// what was asked for text is told at info, everything else at debug.
#pragma once

#include <string>
#include <string_view>

#include "api/answer/answer_format.h"
#include "api/api_metrics.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/generate.h"

namespace bulkhead::api {

// A request whose generation was accepted.
struct EndedRequest {
  std::string request_id;
  RouteId route = RouteId::kChat;
  int status = 200;                // as answered; 499: the client left
  std::string_view finish_reason;  // one of kFinishedReasons
  Usage usage;
  base::Nanoseconds since_arrival{0};
};
void log_ended(base::Logger& logger, const EndedRequest& ended, const wire::FinishEvent& event);

// A request that needed no generation or was refused one.
void log_answered(base::Logger& logger, std::string_view request_id, RouteId route, int status,
                  base::Nanoseconds since_arrival);

}  // namespace bulkhead::api
