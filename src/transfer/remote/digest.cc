#include "transfer/remote/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace bulkhead::transfer::remote {

Digest page_digest(const GrantId& grant, const GrantPage& page, std::span<const std::byte> bytes) {
  // What the bytes are bound to becomes the seed; both peers are little-endian x86-64.
  const std::array<uint64_t, 6> bound = {
      grant.high,
      grant.low,
      static_cast<uint64_t>(page.ref.page),
      page.ref.tag,
      static_cast<uint64_t>(page.token_begin),
      static_cast<uint64_t>(page.token_count),
  };
  const uint64_t seed = XXH3_64bits(bound.data(), sizeof bound);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

}  // namespace bulkhead::transfer::remote
