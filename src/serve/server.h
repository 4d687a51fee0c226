// The whole server: bind, load, serve, drain. What `bulkhead serve` runs.
//
// Threads: called on the main thread, which then only waits for signals; it starts the I/O thread,
// the step thread and the compute threads.
// Invariants: the address is bound before the weights are loaded, so that a taken port fails at
// once, and answers 503 model_loading until they are; SIGTERM or SIGINT drains within its timeout,
// a second one ends at once; a bind beyond loopback without a key is refused.
#pragma once

#include <ostream>

#include "base/result.h"
#include "serve/options.h"

namespace bulkhead::serve {

// Returns when the server has shut down. `out` takes the banner, `log` the log lines.
base::Status run_server(const ServeOptions& options, std::ostream& out, std::ostream& log);

}  // namespace bulkhead::serve
