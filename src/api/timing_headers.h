// How long an answer took, as headers of a whole answer.
//
// Threads: pure functions.
#pragma once

#include "base/clock.h"
#include "http/server.h"
#include "wire/generate.h"

namespace bulkhead::api {

// openai-processing-ms: from the arrival of the request, in whole milliseconds.
http::Header processing_header(base::Nanoseconds since_arrival);
// server-timing: what a generation spent where, in milliseconds.
http::Header server_timing_header(const wire::FinishEvent& event);

}  // namespace bulkhead::api
