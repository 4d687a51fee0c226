// Requests that wait for admission, in the order they will be admitted.
//
// Threads: step thread only. Invariants: lower priority values go first, then earlier arrivals; a
// preempted request returns to the place its arrival gives it; no allocation after construction.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/sequence_state.h"

namespace bulkhead::router {

// Older is smaller: goes first, and is preempted last.
struct Rank {
  int32_t priority = 0;
  uint64_t arrival = 0;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

class WaitingQueue {
 public:
  explicit WaitingQueue(size_t capacity) { entries_.reserve(capacity); }

  void insert(Rank rank, wire::Slot slot);
  void erase(wire::Slot slot);
  size_t size() const { return entries_.size(); }
  wire::Slot at(size_t index) const { return entries_[index].slot; }

 private:
  struct Entry {
    Rank rank;
    wire::Slot slot = 0;
  };
  std::vector<Entry> entries_;  // by rank
};

}  // namespace bulkhead::router
