// The periodic lines operators watch: what prefill and decode did lately, in SGLang's form.
//
// Threads: step thread, except decode_rate(). Invariant: at most one line of each kind a second,
// and none while nothing runs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/log.h"
#include "wire/pools.h"

namespace bulkhead::router {

// The state of the engine when a line is written.
struct LogScene {
  std::chrono::nanoseconds now{0};
  uint32_t running = 0;
  uint32_t queued = 0;
  int64_t tokens_used = 0;  // of the cache
  double usage = 0;         // 0 to 1
};

class StepLog {
 public:
  // Without a logger nothing is written.
  explicit StepLog(base::Logger* logger) : logger_(logger) {}

  void admitted(const wire::Admission& admission);
  // Learned after admission.
  void cached(int32_t tokens) { cached_tokens_ += tokens; }
  void prefilled(const wire::StepReport& report, const LogScene& scene);
  void decoded(const wire::StepReport& report, const LogScene& scene);
  // Tokens a second of the last interval of decode steps; 0 while nothing was decoded lately. Any
  // thread.
  double decode_rate(std::chrono::nanoseconds now) const;

 private:
  struct Interval {
    std::chrono::nanoseconds since{0};
    int64_t tokens = 0;
    int64_t steps = 0;
  };
  // True when the interval is over and a line is due.
  bool add(Interval& interval, const wire::StepReport& report, std::chrono::nanoseconds now);
  void write_prefill(const LogScene& scene);
  static double rate(const Interval& interval, std::chrono::nanoseconds now);

  base::Logger* const logger_;
  Interval prefill_;
  Interval decode_;
  std::atomic<double> decode_rate_{0};
  std::atomic<int64_t> decode_rate_at_{0};  // nanoseconds
  int64_t new_sequences_ = 0;
  int64_t cached_tokens_ = 0;
};

}  // namespace bulkhead::router
