// Which worker gets a request: the least loaded one with room, unless a session or a cached prefix
// says better.
//
// Threads: pure functions. Invariants: a worker that is not available or has no room is never
// chosen; one that failed this request before is chosen only when no other can be; equal views give
// equal choices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace bulkhead::router {

// A worker as the choice sees it.
struct WorkerView {
  uint64_t name = 0;             // stable over restarts, for sessions
  bool available = false;        // there, and neither draining nor retired
  bool has_room = false;         // pages and a place for this request
  bool failed = false;           // had this request before and lost it
  int64_t tokens_in_flight = 0;  // estimated work that it has and has not done
  int32_t cached_tokens = 0;     // of this prompt, believed to be in its prefix index
};

struct WorkerNeed {
  int64_t tokens = 0;    // to be computed where nothing is cached
  uint64_t session = 0;  // requests of one session belong together; 0: of none
};

// The index in `workers`, or nothing when nobody has room now.
std::optional<size_t> choose_worker(std::span<const WorkerView> workers, const WorkerNeed& need);

// The worker that a session belongs to as long as the same workers are available: when one goes,
// only its own sessions move.
std::optional<size_t> home_of_session(std::span<const WorkerView> workers, uint64_t session);

}  // namespace bulkhead::router
