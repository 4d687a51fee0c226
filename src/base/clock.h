// Monotonic time behind an interface, so that tests and the simulator can drive it.
//
// Threads: any thread. Invariant: now() never goes back.
#pragma once

#include <chrono>

namespace bulkhead::base {

using Nanoseconds = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary fixed point; not related to the calendar.
  virtual Nanoseconds now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Nanoseconds now() const override {
    return std::chrono::duration_cast<Nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

// A clock that moves only when told to.
class ManualClock final : public Clock {
 public:
  Nanoseconds now() const override { return now_; }
  void advance(Nanoseconds by) { now_ += by; }

 private:
  Nanoseconds now_{0};
};

inline double to_seconds(Nanoseconds t) { return std::chrono::duration<double>(t).count(); }

}  // namespace bulkhead::base
