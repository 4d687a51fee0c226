// Whether a prefill worker and a decode worker fit each other.
//
// Threads: pure functions. Invariant: both sides evaluate the same function over the same two
// hellos, so both log the same reason.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transfer/remote/messages.h"

namespace bulkhead::transfer::remote {

// What the two differ in, named with both values; nothing when they fit.
std::optional<std::string> pair_mismatch(const Hello& prefill, const Hello& decode);
// The same for two hellos of which only one is known to be one's own.
std::optional<std::string> peer_mismatch(const Hello& own, const Hello& peer);

// What `speaker` says to prove that it knows the key, bound to both sessions' nonces.
std::array<uint8_t, 32> key_proof(std::string_view key, const Hello& speaker,
                                  const Hello& listener);

}  // namespace bulkhead::transfer::remote
