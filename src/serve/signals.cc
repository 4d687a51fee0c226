#include "serve/signals.h"

#include <pthread.h>

namespace bulkhead::serve {

Signals::Signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGTERM);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  // A client that leaves is an error of the write, not a signal.
  ::signal(SIGPIPE, SIG_IGN);
}

Signal Signals::wait(std::chrono::milliseconds timeout) const {
  timespec limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_nsec = (timeout.count() % 1000) * 1'000'000;
  const int number = sigtimedwait(&set_, nullptr, &limit);
  if (number <= 0) return Signal::kNone;
  return number == SIGHUP ? Signal::kReload : Signal::kEnd;
}

}  // namespace bulkhead::serve
