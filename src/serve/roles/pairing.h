// Whether a gateway and a worker fit each other, and the proof that both belong to one deployment.
//
// Threads: pure functions. Invariant: both sides evaluate the same function over the same two
// hellos, so both log the same reason; the key itself never travels.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "wire/worker_messages.h"

namespace bulkhead::serve::roles {

// What the two differ in, named with both values; nothing when they fit. In either order.
std::optional<std::string> pairing_mismatch(const wire::WorkerHello& own,
                                            const wire::WorkerHello& peer);

// What `speaker` says to prove that it knows the key, bound to all that both said of themselves.
std::array<uint8_t, 32> pairing_proof(std::string_view key, const wire::WorkerHello& speaker,
                                      const wire::WorkerHello& listener);

}  // namespace bulkhead::serve::roles
