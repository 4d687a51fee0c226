// Decode's handoffs from every prefill worker that connects, over one transport.
//
// Threads: step thread only. Invariants: as DecodeHandoff; the worst case of a request is promised
// before its first byte is granted; a prefill worker is known by the nonce of its start, so what
// was promised to one that is gone is never filled by its successor.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "serve/roles/worker/handoff.h"
#include "transfer/remote/receiver.h"

namespace bulkhead::serve::roles {

struct ReceivingDeps {
  kv::PagePool& pages;
  transfer::remote::Transport& transport;
  const base::Clock& clock;
  base::Logger* logger = nullptr;
};

class ReceivingLink final : public DecodeHandoff {
 public:
  ReceivingLink(const transfer::remote::ReceiverOptions& options, const ReceivingDeps& deps)
      : options_(options), deps_(deps) {}

  base::Result<Opening> expect(wire::Slot slot, const wire::Expect& what) override;
  void abandon(wire::Slot slot) override;
  std::optional<HandoffEnd> next_end() override;
  void poll() override;
  uint64_t writes_refused() const override { return totals().refused_writes; }
  void close() override;
  bool is_closed() const override { return closed_ && receivers_.empty(); }

  void offer(transfer::Handoff) override;
  std::optional<transfer::Handoff> receive() override;
  std::optional<transfer::Handoff> withdraw(wire::Slot) override { return std::nullopt; }
  size_t in_transit() const override { return expected_.size(); }

  // Pages that nobody may use yet: a prefill worker may still write to them.
  int32_t quarantined_pages() const;
  // Appends every lease held here, to be held against the pool's own books.
  void add_holders(std::vector<kv::PageRef>& holders) const;
  HandoffTotals totals() const;

 private:
  struct Expected {
    transfer::remote::TransferId transfer;
    transfer::remote::Receiver* receiver = nullptr;
  };

  void hear_ends(transfer::remote::Receiver& receiver);
  void forget(const transfer::remote::TransferId& transfer);

  const transfer::remote::ReceiverOptions options_;
  ReceivingDeps deps_;
  std::vector<std::unique_ptr<transfer::remote::Receiver>> receivers_;
  std::unordered_map<wire::Slot, Expected> expected_;
  std::map<transfer::remote::TransferId, wire::Slot> slots_;
  std::deque<HandoffEnd> ends_;
  HandoffTotals gone_;  // of receivers that are no more
  bool closed_ = false;
};

}  // namespace bulkhead::serve::roles
