#include "router/waiting_queue.h"

#include <algorithm>

#include "base/check.h"

namespace bulkhead::router {

void WaitingQueue::insert(Rank rank, wire::Slot slot) {
  BH_CHECK(entries_.size() < entries_.capacity(), "every live request has a place");
  const auto place = std::upper_bound(entries_.begin(), entries_.end(), rank,
                                      [](const Rank& a, const Entry& b) { return a < b.rank; });
  entries_.insert(place, {rank, slot});
}

void WaitingQueue::erase(wire::Slot slot) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [slot](const Entry& entry) { return entry.slot == slot; });
  BH_CHECK(found != entries_.end(), "only a waiting request leaves the queue");
  entries_.erase(found);
}

}  // namespace bulkhead::router
