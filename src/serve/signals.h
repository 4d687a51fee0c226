// The signals a server listens to, taken one at a time on the main thread.
//
// Threads: construct on the main thread before any other thread exists, so that all of them inherit
// the mask; wait() there too. Invariant: no code runs in a signal handler.
#pragma once

#include <signal.h>

#include <chrono>

namespace bulkhead::serve {

enum class Signal {
  kNone,
  kEnd,     // SIGTERM, SIGINT
  kReload,  // SIGHUP
};

class Signals {
 public:
  Signals();
  // The first that arrives within `timeout`.
  Signal wait(std::chrono::milliseconds timeout) const;

 private:
  sigset_t set_;
};

}  // namespace bulkhead::serve
