// Frames between gateway and workers: what a peer may send before and after its greeting.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/worker_codec.h"

namespace {

constexpr bulkhead::wire::SequenceBounds kBounds{.vocabulary_size = 1000, .context_tokens = 4096};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> frame(input.begin(), input.end());
  (void)bulkhead::wire::decode_worker_frame(frame, kBounds);
  // And as a peer would send it who knows how frames are made.
  bulkhead::wire::seal_worker_frame(frame);
  auto decoded = bulkhead::wire::decode_worker_frame(frame, kBounds);
  if (!decoded.ok()) return 0;
  // What is accepted is written again, and read again as the same.
  std::vector<std::byte> again;
  bulkhead::wire::encode_worker_frame(decoded->message, decoded->number, again);
  auto twice = bulkhead::wire::decode_worker_frame(again, kBounds);
  if (!twice.ok() || twice->message.index() != decoded->message.index()) std::abort();
  return 0;
}
