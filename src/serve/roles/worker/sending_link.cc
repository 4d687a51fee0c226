#include "serve/roles/worker/sending_link.h"

#include <utility>

#include "base/check.h"
#include "wire/faults.h"

namespace bulkhead::serve::roles {

using transfer::remote::Fault;
using transfer::remote::Sender;
using transfer::remote::TransferId;
using wire::Slot;

SendingLink::SendingLink(const transfer::remote::SenderOptions& options, SendingDeps deps)
    : options_(options), deps_(std::move(deps)) {}

// The sender to this address, connecting if need be.
base::Result<Sender*> SendingLink::reach(const std::string& address) {
  const auto found = senders_.find(address);
  if (found != senders_.end()) return found->second.get();
  const auto unreachable = [] {
    return wire::fault(wire::kTransferFailed, "the decode worker cannot be reached; try again");
  };
  if (closed_) return unreachable();
  auto connection = deps_.transport.connect(address);
  if (!connection.ok()) return unreachable();
  auto sender = std::make_unique<Sender>(options_, deps_.pages, deps_.destination, deps_.convert,
                                         std::move(connection).value(), deps_.clock);
  return senders_.emplace(address, std::move(sender)).first->second.get();
}

base::Result<Opening> SendingLink::open(Slot slot, const wire::AttemptId& attempt,
                                        const std::string& address, uint64_t decode_boot,
                                        int32_t prompt_tokens) {
  BH_ASSIGN(Sender* const sender, reach(address));
  const transfer::remote::Session& session = sender->session();
  if (!session.is_open()) return Opening::kWait;  // or a new one is on its way
  if (session.peer().boot_nonce != decode_boot) {
    return wire::fault(wire::kWorkerLost, "the decode worker has started anew; try again");
  }
  const TransferId transfer{attempt.high, attempt.low};
  const base::Status opened = sender->open(transfer, prompt_tokens);
  if (!opened.ok()) {
    if (opened.error().code == base::ErrorCode::kResourceExhausted) return Opening::kWait;
    return wire::fault(wire::kTransferFailed, "the decode worker cannot be reached; try again");
  }
  open_[slot] = {transfer, sender};
  slots_[transfer] = slot;
  return Opening::kDone;
}

void SendingLink::written(Slot slot, const kv::PageTable& pages, int32_t written) {
  const auto found = open_.find(slot);
  if (found != open_.end()) found->second.sender->offer(found->second.transfer, pages, written);
}

void SendingLink::offer(transfer::Handoff handoff) {
  const auto found = open_.find(handoff.state.slot);
  if (found == open_.end()) return;  // it has ended, and the owner will hear so
  found->second.sender->finish(found->second.transfer, handoff.pages, handoff.state);
}

void SendingLink::abandon(Slot slot) {
  const auto found = open_.find(slot);
  if (found == open_.end()) return;
  found->second.sender->abort(found->second.transfer, {Fault::kAborted, "given up by its owner"});
}

void SendingLink::poll() {
  deps_.transport.progress();
  for (auto entry = senders_.begin(); entry != senders_.end();) {
    Sender& sender = *entry->second;
    sender.poll();
    while (auto end = sender.next_end()) {
      const auto found = slots_.find(end->transfer);
      BH_CHECK(found != slots_.end(), "a transfer ends once");
      std::optional<base::Error> error;
      if (end->why.fault != Fault::kNone) {
        error = to_error(end->why);
        note(deps_.logger, end->why);
      }
      ends_.push_back({found->second, std::move(error)});
      open_.erase(found->second);
      slots_.erase(found);
    }
    if (!sender.session().is_finished()) {
      ++entry;
      continue;
    }
    if (!closed_) note_closed(deps_.logger, "decode", sender.session().why_closed());
    gone_.add(sender.session());
    entry = senders_.erase(entry);
  }
}

HandoffTotals SendingLink::totals() const {
  HandoffTotals totals = gone_;
  for (const auto& [address, sender] : senders_) totals.add(sender->session());
  return totals;
}

void SendingLink::add_holders(std::vector<kv::PageRef>& holders) const {
  for (const auto& [address, sender] : senders_) sender->add_holders(holders);
}

void SendingLink::close() {
  closed_ = true;
  for (auto& [address, sender] : senders_) {
    sender->close(Fault::kShutdown, "the prefill worker leaves");
  }
}

std::optional<HandoffEnd> SendingLink::next_end() {
  if (ends_.empty()) return std::nullopt;
  std::optional<HandoffEnd> out(std::move(ends_.front()));
  ends_.pop_front();
  return out;
}

}  // namespace bulkhead::serve::roles
