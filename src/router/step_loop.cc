#include "router/step_loop.h"

namespace bulkhead::router {
namespace {

constexpr std::chrono::milliseconds kIdleTick{100};

}  // namespace

StepLoop::StepLoop(Router& router, const base::Clock& clock)
    : router_(router), clock_(clock), thread_([this] { run(); }) {}

StepLoop::~StepLoop() { stop(std::chrono::nanoseconds(0)); }

void StepLoop::stop(std::chrono::nanoseconds grace) {
  if (!thread_.joinable()) return;
  router_.drain(clock_.now() + grace);
  thread_.join();
}

void StepLoop::run() {
  while (!router_.drained()) {
    if (router_.step() == wire::StepOutcome::kIdle && !router_.drained()) router_.wait(kIdleTick);
  }
}

}  // namespace bulkhead::router
