#include "api/timing_headers.h"

#include <fmt/format.h>

namespace bulkhead::api {

http::Header processing_header(base::Nanoseconds since_arrival) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(since_arrival);
  return {"openai-processing-ms", fmt::format("{}", whole.count())};
}

http::Header server_timing_header(const wire::FinishEvent& event) {
  const auto milliseconds = [](base::Nanoseconds time) { return base::to_seconds(time) * 1e3; };
  return {"server-timing",
          fmt::format("queue;dur={:.3f}, prefill;dur={:.3f}, decode;dur={:.3f}",
                      milliseconds(event.queue_time), milliseconds(event.prefill_time),
                      milliseconds(event.decode_time))};
}

}  // namespace bulkhead::api
