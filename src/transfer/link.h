// How a sequence with its pages gets from prefill to decode.
//
// Threads: step thread only. Invariants: a handoff is in exactly one place: offered, in the link,
// or received; it is received at most once; one that is withdrawn is never received.
#pragma once

#include <cstddef>
#include <optional>

#include "kv/page_table.h"
#include "wire/sequence_state.h"

namespace bulkhead::transfer {

// A prefilled sequence: tokens include the first generated one, pages hold everything before it.
struct Handoff {
  wire::SequenceState state;
  kv::PageTable pages;
  // False: something was wrong with a page on the way, and whoever receives this ends it.
  bool intact = true;
};

class Link {
 public:
  virtual ~Link() = default;
  // Promises room for so many tokens where the sequence will arrive; false: not now. A link that
  // hands the pages themselves on has nothing to promise.
  virtual bool reserve(wire::Slot, int64_t /*tokens*/) { return true; }
  // Gives back a promise that no handoff took.
  virtual void unreserve(wire::Slot) {}
  // The first `written` tokens of a prompt that is still being computed are in these pages for
  // good.
  virtual void written(wire::Slot, const kv::PageTable&, int32_t /*written*/) {}
  // A bounded piece of what is on the way.
  virtual void advance() {}
  // There must be room: prefill runs no more sequences than the link can carry.
  virtual void offer(Handoff handoff) = 0;
  // The oldest handoff that has arrived whole.
  virtual std::optional<Handoff> receive() = 0;
  // Takes back a handoff that was not received yet.
  virtual std::optional<Handoff> withdraw(wire::Slot slot) = 0;
  virtual size_t in_transit() const = 0;
};

}  // namespace bulkhead::transfer
