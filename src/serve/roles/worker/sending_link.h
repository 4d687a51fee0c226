// Prefill's handoffs to every decode worker it was told of, over one transport.
//
// Threads: step thread only. Invariants: as PrefillHandoff; one session to each decode worker,
// opened when the first prompt for it arrives; a decode worker that started anew under the same
// address is another one, and nothing meant for the old one goes to it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "serve/roles/worker/handoff.h"
#include "transfer/remote/sender.h"

namespace bulkhead::serve::roles {

struct SendingDeps {
  kv::PagePool& pages;
  kv::PageLayout destination;  // of decode's pages
  transfer::remote::Convert convert;
  transfer::remote::Transport& transport;
  const base::Clock& clock;
  base::Logger* logger = nullptr;
};

class SendingLink final : public PrefillHandoff {
 public:
  SendingLink(const transfer::remote::SenderOptions& options, SendingDeps deps);

  base::Result<Opening> open(wire::Slot slot, const wire::AttemptId& attempt,
                             const std::string& address, uint64_t decode_boot,
                             int32_t prompt_tokens) override;
  void abandon(wire::Slot slot) override;
  std::optional<HandoffEnd> next_end() override;
  void poll() override;
  void close() override;
  bool is_closed() const override { return closed_ && senders_.empty(); }

  void written(wire::Slot slot, const kv::PageTable& pages, int32_t written) override;
  void offer(transfer::Handoff handoff) override;
  std::optional<transfer::Handoff> receive() override { return std::nullopt; }
  std::optional<transfer::Handoff> withdraw(wire::Slot) override { return std::nullopt; }
  size_t in_transit() const override { return open_.size(); }
  // Appends every lease held here, to be held against the pool's own books.
  void add_holders(std::vector<kv::PageRef>& holders) const;
  HandoffTotals totals() const;

 private:
  struct Open {
    transfer::remote::TransferId transfer;
    transfer::remote::Sender* sender = nullptr;
  };

  base::Result<transfer::remote::Sender*> reach(const std::string& address);

  const transfer::remote::SenderOptions options_;
  SendingDeps deps_;
  std::map<std::string, std::unique_ptr<transfer::remote::Sender>> senders_;  // by address
  std::unordered_map<wire::Slot, Open> open_;
  std::map<transfer::remote::TransferId, wire::Slot> slots_;
  std::deque<HandoffEnd> ends_;
  HandoffTotals gone_;  // of senders that are no more
  bool closed_ = false;
};

}  // namespace bulkhead::serve::roles
