// What goes wrong between processes of one deployment and may go well on another try, as errors.
//
// Threads: pure functions. Invariant: such an error is kUnavailable and its `field` is the stable
// code that docs/api.md lists; an error of that kind without a field is a server that shuts down.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace bulkhead::wire {

// The process that had the request is gone.
inline constexpr std::string_view kWorkerLost = "worker_lost";
// The cache did not get from prefill to decode.
inline constexpr std::string_view kTransferFailed = "kv_transfer_failed";
// Cache pages are not what they should be.
inline constexpr std::string_view kIntegrity = "kv_integrity";

inline constexpr std::string_view kIntegrityMessage =
    "the request's cache pages were not what they should be, so it was ended; try again";

inline base::Error fault(std::string_view code, std::string message) {
  return {base::ErrorCode::kUnavailable, std::move(message), std::string(code)};
}
inline bool is_fault(const base::Error& error) {
  return error.code == base::ErrorCode::kUnavailable &&
         (error.field == kWorkerLost || error.field == kTransferFailed ||
          error.field == kIntegrity);
}

}  // namespace bulkhead::wire
