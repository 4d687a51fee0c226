// The step thread: the one thread that runs the router, the pools and the model.
//
// Threads: built and stopped by its owner. Invariants: the router and everything behind it outlive
// the loop; while nothing is asked for the thread sleeps, and still ticks, so that the age of the
// last progress tells a wedged step from a quiet night.
#pragma once

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "router/router.h"

namespace bulkhead::router {

class StepLoop {
 public:
  StepLoop(Router& router, const base::Clock& clock);
  ~StepLoop();  // stop() without grace
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  // Refuses new requests, lets accepted ones run for at most `grace`, ends the rest, and returns
  // when the thread is gone.
  void stop(std::chrono::nanoseconds grace);

 private:
  void run();

  Router& router_;
  const base::Clock& clock_;
  std::thread thread_;
};

}  // namespace bulkhead::router
