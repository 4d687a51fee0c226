// Virtual time: what happens next, and the clock that everything under test reads.
//
// Threads: one. Invariants: events run in the order of (time, order of scheduling); time moves only
// when an event is taken, and never back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace bulkhead::sim {

using base::Nanoseconds;

constexpr Nanoseconds milliseconds(int64_t count) { return Nanoseconds{count * 1'000'000}; }

class EventQueue {
 public:
  using Action = std::function<void()>;

  const base::Clock& clock() const { return clock_; }
  Nanoseconds now() const { return clock_.now(); }
  bool empty() const { return events_.empty(); }

  void in(Nanoseconds delay, Action action) {
    events_.push_back({clock_.now() + delay, ++scheduled_, std::move(action)});
    std::push_heap(events_.begin(), events_.end(), later);
  }
  // Takes the next event; there must be one.
  void run_one() {
    std::pop_heap(events_.begin(), events_.end(), later);
    Event next = std::move(events_.back());
    events_.pop_back();
    clock_.advance(next.when - clock_.now());
    next.action();
  }

 private:
  struct Event {
    Nanoseconds when{0};
    uint64_t number = 0;
    Action action;
  };
  static bool later(const Event& a, const Event& b) {
    return std::pair(a.when, a.number) > std::pair(b.when, b.number);
  }

  base::ManualClock clock_;
  std::vector<Event> events_;  // a heap
  uint64_t scheduled_ = 0;
};

}  // namespace bulkhead::sim
