// What other threads ask of the step thread: new requests, cancellations, the end of intake.
//
// Threads: submit(), cancel(), flush(), close() and closed() by any thread; the rest by the step
// thread. Invariants: at most live_max requests are between submit() and forget(); a cancellation
// is kept once per live request and dropped for any other, so nothing here grows with what clients
// send; a request and its cancellation are seen in the order they were made.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "wire/generate.h"

namespace bulkhead::router {

struct Arrival {
  wire::GenerateRequest request;
  std::shared_ptr<wire::EventSink> sink;
  std::chrono::nanoseconds at{0};
};

class Inbox {
 public:
  explicit Inbox(uint32_t live_max);

  // All of them or none: kResourceExhausted when full, kUnavailable when closed, kInvalidArgument
  // for an id in use.
  base::Status submit(std::vector<wire::Submission> batch, std::chrono::nanoseconds now);
  void cancel(wire::RequestId id);
  // Asks that the prefix index be emptied; asking twice before it happens is asking once.
  void flush();
  // No submission from here on; wakes the step thread.
  void close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // Whether a flush was asked for since the last call.
  bool take_flush() { return flush_.exchange(false, std::memory_order_acquire); }
  // Appends what has arrived. Costs one atomic load when nothing has.
  void take(std::vector<Arrival>& arrivals, std::vector<wire::RequestId>& cancellations);
  // The request is done; its place is free.
  void forget(wire::RequestId id);
  // Returns when something has arrived, or after `timeout`: spins briefly, then sleeps.
  void wait(std::chrono::nanoseconds timeout);

 private:
  base::Status enter_ids(const std::vector<wire::Submission>& batch);

  const uint32_t live_max_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Arrival> arrivals_;
  std::vector<wire::RequestId> cancellations_;
  std::unordered_map<wire::RequestId, bool> live_;  // -> cancellation seen
  std::atomic<bool> pending_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> flush_{false};
};

}  // namespace bulkhead::router
