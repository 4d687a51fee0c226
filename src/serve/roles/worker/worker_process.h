// A worker as a process: weights, one page pool, one pool of sequences, the loop around them, and
// the sockets by which a gateway and other workers reach it.
//
// Threads: start() and stop() on one thread. Invariants: the sockets are bound before the weights
// are loaded, so that a taken port fails at once; a worker answers nobody without the deployment's
// key; members end in the reverse order of what they depend on, the step thread first.
#pragma once

#include <ostream>

#include "base/result.h"
#include "serve/options.h"

namespace bulkhead::serve::roles {

// Returns when the worker has shut down: SIGTERM lets what it has come to its end within the drain
// timeout, a second one ends at once. `out` takes the banner, `log` the log lines.
base::Status run_worker(const ServeOptions& options, std::ostream& out, std::ostream& log);

}  // namespace bulkhead::serve::roles
