// Damage to chunks of pages that no checksum of the frame can show: it is done before the checksum.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/faults.h"
#include "transfer/remote/transport.h"

namespace bulkhead::sim {

// Changes the frame if it is a chunk and one of the kinds strikes. `last_payload` is that of the
// last chunk that passed here, and becomes this one's.
void tamper_with_chunk(FaultLedger& faults, std::string_view where,
                       std::vector<std::byte>& last_payload, transfer::remote::Frame& frame);

}  // namespace bulkhead::sim
