#include "sim/tamper.h"

#include <algorithm>
#include <utility>

#include "transfer/remote/codec.h"

namespace bulkhead::sim {

using transfer::remote::Chunk;
using transfer::remote::Frame;

void tamper_with_chunk(FaultLedger& faults, std::string_view where,
                       std::vector<std::byte>& last_payload, Frame& frame) {
  if (transfer::remote::describe_frame(frame) != "chunk") return;
  auto decoded = transfer::remote::decode_frame(frame);
  if (!decoded.ok()) return;
  auto* chunk = std::get_if<Chunk>(&decoded->message);
  if (chunk == nullptr || chunk->payload.empty()) return;
  const std::vector<std::byte> was(chunk->payload.begin(), chunk->payload.end());
  std::vector<std::byte> now = was;
  // What would change nothing is no fault.
  const bool other = last_payload.size() == was.size() && last_payload != was;
  const auto half = static_cast<std::ptrdiff_t>(was.size() / 2);
  const bool unlike = !std::equal(was.begin(), was.begin() + half, was.begin() + half);
  if (other && faults.strikes(FaultKind::kSwapPayload, where)) {
    now = last_payload;
  } else if (unlike && faults.strikes(FaultKind::kSwapLayers, where)) {
    std::rotate(now.begin(), now.begin() + half, now.end());
  } else if (faults.strikes(FaultKind::kFlipPayload, where)) {
    const uint64_t bit = faults.bits(0) % (8 * now.size());
    now[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  last_payload = was;
  if (now == was) return;
  chunk->payload = now;
  Frame out;
  transfer::remote::encode_frame(decoded->header, decoded->message, out);
  frame = std::move(out);
}

}  // namespace bulkhead::sim
