#include "wire/generate.h"

namespace bulkhead::wire {

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

base::Status Generator::submit(GenerateRequest request, std::shared_ptr<EventSink> sink) {
  std::vector<Submission> batch;
  batch.push_back({std::move(request), std::move(sink)});
  return submit_all(std::move(batch));
}

}  // namespace bulkhead::wire
