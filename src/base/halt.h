// Stops this process at a step that a test names, so that the test can kill it right there or let
// it go on later: BULKHEAD_HALT_AT=step, or step:n for the n-th time (docs/transfer.md).
//
// Threads: any. Invariant: without that variable, which is read once, nothing ever happens; with
// it, SIGSTOP once.
#pragma once

#include <string_view>

namespace bulkhead::base {

// The step "verb-what" begins: "send-chunk".
void halt_at(std::string_view verb, std::string_view what);

}  // namespace bulkhead::base
