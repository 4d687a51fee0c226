// What has arrived of a numbered stream and waits for its turn.
//
// Threads: one. Invariants: every number is taken once and comes out in order, from 0; what waits
// is bounded in bytes, with the buffer's own for each entry, and in how far a number is ahead of
// what arrived without a gap, whatever the peer sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace bulkhead::transfer::remote {

enum class ArrivalFault : uint8_t { kNone, kTooMuch, kTooFar, kTwice };

template <typename Entry>
class ReorderBuffer {
 public:
  // Entries besides their bytes: the map's node, the frame's own allocation, a request of UCX.
  static constexpr size_t kEntryBytes = 512;
  // Few frames overtake others: those that were posted while a connection came about.
  static constexpr uint64_t kAheadMax = 4096;

  explicit ReorderBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

  struct Added {
    Entry* entry = nullptr;  // until it is popped; null with a fault
    ArrivalFault fault = ArrivalFault::kNone;
  };
  Added add(uint64_t number, size_t bytes) {
    if (number < next_) return {nullptr, ArrivalFault::kTwice};
    if (number > gap_ && number - gap_ > kAheadMax) return {nullptr, ArrivalFault::kTooFar};
    const size_t room = bytes_max_ - bytes_;
    if (room < kEntryBytes || bytes > room - kEntryBytes) return {nullptr, ArrivalFault::kTooMuch};
    const auto [place, added] = entries_.try_emplace(number);
    if (!added) return {nullptr, ArrivalFault::kTwice};
    place->second.bytes = bytes + kEntryBytes;
    bytes_ += place->second.bytes;
    while (entries_.contains(gap_)) ++gap_;
    return {&place->second.entry, ArrivalFault::kNone};
  }

  // The entry whose turn it is; null: it has not arrived.
  Entry* front() {
    const auto found = entries_.find(next_);
    return found == entries_.end() ? nullptr : &found->second.entry;
  }
  // Only when there is one.
  void pop() {
    const auto found = entries_.find(next_);
    bytes_ -= found->second.bytes;
    entries_.erase(found);
    ++next_;
  }
  // Gives every entry that waits to `take`, and is done with them.
  template <typename Take>
  void clear(Take take) {
    for (auto& [number, held] : entries_) take(std::move(held.entry));
    entries_.clear();
    bytes_ = 0;
  }

 private:
  struct Held {
    Entry entry;
    size_t bytes = 0;
  };
  const size_t bytes_max_;
  std::map<uint64_t, Held> entries_;
  uint64_t next_ = 0;  // to come out
  uint64_t gap_ = 0;   // the first that has not arrived
  size_t bytes_ = 0;
};

}  // namespace bulkhead::transfer::remote
