// The seam through which a test server's pages go wrong on purpose.
//
// Threads: step thread. Invariant: a pool without a port is not asked anything.
#pragma once

#include <span>

#include "kv/integrity/tracker.h"

namespace bulkhead::kv::integrity {

class FaultPort {
 public:
  virtual ~FaultPort() = default;
  // The pages of a step are settled and were not compared yet. The port may point a reading's
  // `pages` elsewhere, at memory that lasts until the step is over, and may damage the pool.
  virtual void after_snapshot_build(std::span<Reading> readings) = 0;
};

}  // namespace bulkhead::kv::integrity
