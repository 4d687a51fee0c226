// The handler of the first seconds: the port answers, the model does not yet.
//
// Threads: handle() on the I/O thread; progress() and open() on the thread that loads. Invariants:
// until open(), GET /livez is 200, GET /startupz tells how far the load is, and everything else is
// 503 model_loading with Retry-After; from then on every request goes to the given handler.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "http/server.h"

namespace bulkhead::serve {

class LoadingGate {
 public:
  explicit LoadingGate(const base::Clock& clock) : clock_(clock), started_(clock.now()) {}

  void progress(uint64_t done_bytes, uint64_t total_bytes) {
    total_bytes_.store(total_bytes, std::memory_order_relaxed);
    done_bytes_.store(done_bytes, std::memory_order_relaxed);
  }
  void open(http::Handler handler) {
    handler_ = std::move(handler);
    ready_.store(true, std::memory_order_release);
  }
  void handle(http::Request request, std::shared_ptr<http::ResponseWriter> writer);

 private:
  http::Response startup() const;

  const base::Clock& clock_;
  const base::Nanoseconds started_;
  std::atomic<uint64_t> done_bytes_{0};
  std::atomic<uint64_t> total_bytes_{0};
  std::atomic<bool> ready_{false};
  http::Handler handler_;  // written once, before ready_
  uint64_t answered_ = 0;  // I/O thread: makes request ids
};

}  // namespace bulkhead::serve
