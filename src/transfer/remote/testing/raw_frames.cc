#include "transfer/remote/testing/raw_frames.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "transfer/remote/codec.h"
#include "wire/bytes.h"

namespace bulkhead::transfer::remote {

Frame frame_of(uint16_t type, std::span<const std::byte> body) {
  Frame header;
  wire::ByteWriter out(header);
  out.bytes(std::as_bytes(std::span("BHK1", 4)));
  out.put(kProtocolVersion);
  out.put(type);
  out.put(uint64_t{0});
  out.put(uint64_t{1});
  out.put(uint64_t{0});
  out.put(static_cast<uint64_t>(body.size()));
  const uint64_t seed = XXH3_64bits(header.data(), header.size());
  out.put(XXH3_64bits_withSeed(body.data(), body.size(), seed));
  out.bytes(body);
  return header;
}

}  // namespace bulkhead::transfer::remote
