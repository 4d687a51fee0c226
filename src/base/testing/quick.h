// Whether a test should do less of the same, as it is asked under sanitizers (BULKHEAD_QUICK): a
// shorter sweep over more values, never one kind of case fewer.
//
// Threads: any.
#pragma once

#include <cstdlib>

namespace bulkhead::base::testing {

inline bool quick() { return std::getenv("BULKHEAD_QUICK") != nullptr; }

}  // namespace bulkhead::base::testing
