// The link of the shared placement: prefill and decode use one page pool, so the leases move and no
// bytes do.
//
// Threads: step thread only. Invariant: no allocation after construction.
#pragma once

#include <span>
#include <vector>

#include "transfer/link.h"

namespace bulkhead::transfer {

class ByReference final : public Link {
 public:
  explicit ByReference(size_t capacity);
  void offer(Handoff handoff) override;
  std::optional<Handoff> receive() override;
  std::optional<Handoff> withdraw(wire::Slot slot) override;
  size_t in_transit() const override { return waiting_.size(); }
  std::span<const Handoff> waiting() const { return waiting_; }

 private:
  std::optional<Handoff> take(size_t index);

  const size_t capacity_;
  std::vector<Handoff> waiting_;  // oldest first
};

}  // namespace bulkhead::transfer
