// Names for the numbers that travel between stations.
//
// Threads: plain values.
#pragma once

#include <cstdint>

namespace bulkhead::wire {

// Index into the model's vocabulary.
using TokenId = int32_t;

// Server-made identity of one generation, never reused in a process; clients' ids are only echoed.
using RequestId = uint64_t;

}  // namespace bulkhead::wire
