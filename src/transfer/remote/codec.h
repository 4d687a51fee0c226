// Messages as frames: a header of fixed size, a body, and a checksum over both.
//
// Threads: pure functions. Invariants: decoding never reads outside the frame, allocates no more
// than the frame could fill, and accepts no frame with a byte left over; decode(encode(m)) == m.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "transfer/remote/messages.h"

namespace bulkhead::transfer::remote {

// magic 4, version 2, type 2, to 8, sequence 8, arrived 8, body bytes 4, zero 4, checksum 8.
constexpr size_t kFrameHeaderBytes = 48;

struct FrameHeader {
  MessageType type = MessageType::kHello;
  uint64_t to = 0;        // folded session nonce of the receiver; 0 in a Hello
  uint64_t sequence = 0;  // 1, 2, ... in each direction of a session
  uint64_t arrived = 0;   // the highest sequence seen from the other side
};

struct DecodedFrame {
  FrameHeader header;
  Message message;
};

// Writes the whole frame into `out`, in place of what it held.
void encode_frame(const FrameHeader& header, const Message& message, std::vector<std::byte>& out);
// Errors: kCorruptData for a frame that is malformed, kUnsupported for another protocol's version.
base::Result<DecodedFrame> decode_frame(std::span<const std::byte> frame);

// What a frame says it is, without looking further; for logs and tests.
std::string_view describe_frame(std::span<const std::byte> frame);

}  // namespace bulkhead::transfer::remote
