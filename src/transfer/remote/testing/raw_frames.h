// Frames put together by hand, with a header and a checksum that are right.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "transfer/remote/transport.h"

namespace bulkhead::transfer::remote {

// A frame of any type with any body.
Frame frame_of(uint16_t type, std::span<const std::byte> body);

}  // namespace bulkhead::transfer::remote
