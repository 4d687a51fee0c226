// What runs the requests of a server: a model in this process, or workers elsewhere.
//
// Threads: generator() may be used by any thread; the rest by the one that started it. Invariant:
// after stop() nothing is generated and no event comes.
#pragma once

#include <chrono>
#include <vector>

#include "wire/generate.h"
#include "wire/integrity.h"

namespace bulkhead::serve {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual wire::Generator& generator() = 0;
  // Of the pages in this process; null: there are none.
  virtual wire::IntegrityPort* integrity() { return nullptr; }
  // Who has pages where they are in other processes. Any thread.
  virtual std::vector<wire::IntegrityWorker> workers() const { return {}; }
  // Refuses new requests; accepted ones are ended at now + grace. Returns at once.
  virtual void drain(std::chrono::nanoseconds grace) = 0;
  virtual bool drained() const = 0;
  // Ends what is left and joins the step thread.
  virtual void stop() = 0;
};

}  // namespace bulkhead::serve
