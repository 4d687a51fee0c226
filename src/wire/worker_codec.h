// Messages between gateway and workers as frames: magic, version, type, number, body, checksum.
//
// Threads: pure functions. Invariants: decoding never reads outside the frame, allocates no more
// than the frame could fill, and accepts no frame with a byte left over; what it returns keeps
// every rule of the structs in it, whatever the bytes were; a frame that was damaged on its way is
// refused, so that no bit of a token changes unseen.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "wire/sequence_codec.h"
#include "wire/worker_messages.h"

namespace bulkhead::wire {

// Writes the whole frame into `out`, in place of what it held. `number` counts a session's frames.
void encode_worker_frame(const WorkerMessage& message, uint64_t number,
                         std::vector<std::byte>& out);

// Appends the checksum that ends a frame.
void seal_worker_frame(std::vector<std::byte>& frame);

struct WorkerFrame {
  uint64_t number = 0;
  WorkerMessage message;
};

// Errors: kCorruptData for a frame that is malformed or breaks a bound, kUnsupported for another
// protocol's version.
base::Result<WorkerFrame> decode_worker_frame(std::span<const std::byte> frame,
                                              const SequenceBounds& bounds);

}  // namespace bulkhead::wire
