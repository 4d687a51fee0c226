// Which of several decode pools takes a request.
//
// Threads: pure function. Invariants: a pool that has no room or takes no more is never chosen; the
// same loads and the same wish give the same choice; when one pool of many goes, only its sessions
// get another home.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace bulkhead::router {

// Tokens count as promised: prompt and longest answer of every request the pool has.
struct PoolLoad {
  uint64_t key = 0;  // names the pool for good, whatever its place in the list
  int64_t tokens_in_flight = 0;
  int64_t tokens_free = 0;  // its cache could take so many more
  bool accepting = true;    // false: draining, or not heard of
};

struct PoolWish {
  int64_t tokens = 0;    // the request's, as above
  uint64_t session = 0;  // wire::GenerateRequest::session
};

// The index of the pool with the fewest tokens in flight that has room; the session's home instead
// while that has room and is not much fuller. Nothing: none has room now.
std::optional<size_t> choose_pool(std::span<const PoolLoad> pools, const PoolWish& wish);

}  // namespace bulkhead::router
