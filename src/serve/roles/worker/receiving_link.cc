#include "serve/roles/worker/receiving_link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::serve::roles {

using transfer::remote::Fault;
using transfer::remote::Receiver;
using transfer::remote::TransferId;
using wire::Slot;

namespace {

// Connections of prefill workers at a time; more are turned away.
constexpr size_t kReceiversMax = 64;

void add(HandoffTotals& totals, const Receiver& receiver) {
  const transfer::remote::ReceiverCounters& counters = receiver.counters();
  totals.refused_writes +=
      counters.late + counters.stale_tag + counters.out_of_range + counters.duplicate;
  totals.refused_records += counters.commits_refused;
  totals.pages_asked_again += counters.resends_asked;
  totals.leases_expired += counters.leases_expired;
  totals.add(receiver.session());
}

}  // namespace

base::Result<Opening> ReceivingLink::expect(Slot slot, const wire::Expect& what) {
  const auto found =
      std::find_if(receivers_.begin(), receivers_.end(), [&what](const auto& receiver) {
        return receiver->session().is_open() &&
               receiver->session().peer().boot_nonce == what.prefill_boot;
      });
  if (found == receivers_.end()) return Opening::kWait;
  transfer::remote::GrantRequest request;
  request.transfer = {what.attempt.high, what.attempt.low};
  request.pages = kv::PageTable(deps_.pages, what.tokens_max);
  request.tokens = what.prompt_tokens;
  request.tokens_max = what.tokens_max;
  request.slot = slot;
  request.id = what.attempt.low;
  if (!request.pages.promise(what.tokens_max) || !request.pages.cover(what.prompt_tokens)) {
    return Opening::kWait;
  }
  const TransferId transfer = request.transfer;
  const base::Status granted = (*found)->grant(request);
  if (!granted.ok()) return Opening::kWait;  // the session is closing, or has its fill
  expected_[slot] = {transfer, found->get()};
  slots_[transfer] = slot;
  return Opening::kDone;
}

void ReceivingLink::offer(transfer::Handoff) {
  BH_CHECK(false, "what arrives here comes from another process");
}

void ReceivingLink::abandon(Slot slot) {
  const auto found = expected_.find(slot);
  if (found == expected_.end()) return;
  Receiver& receiver = *found->second.receiver;
  receiver.abort(found->second.transfer);
  hear_ends(receiver);
}

void ReceivingLink::forget(const TransferId& transfer) {
  const auto found = slots_.find(transfer);
  BH_CHECK(found != slots_.end(), "a transfer ends or arrives once");
  expected_.erase(found->second);
  slots_.erase(found);
}

void ReceivingLink::hear_ends(Receiver& receiver) {
  while (auto end = receiver.next_end()) {
    const auto found = slots_.find(end->transfer);
    BH_CHECK(found != slots_.end(), "a transfer ends or arrives once");
    ends_.push_back({found->second, to_error(end->why)});
    note(deps_.logger, end->why);
    forget(end->transfer);
  }
}

void ReceivingLink::poll() {
  deps_.transport.progress();
  while (auto connection = deps_.transport.accept()) {
    if (closed_ || receivers_.size() >= kReceiversMax) {
      connection->close();
      continue;
    }
    receivers_.push_back(
        std::make_unique<Receiver>(options_, deps_.pages, std::move(connection), deps_.clock));
  }
  for (const auto& receiver : receivers_) {
    receiver->poll();
    hear_ends(*receiver);
  }
  // What arrived before its session closed is still to be received.
  std::erase_if(receivers_, [this](const std::unique_ptr<Receiver>& receiver) {
    const auto in_use = std::any_of(expected_.begin(), expected_.end(), [&](const auto& entry) {
      return entry.second.receiver == receiver.get();
    });
    if (in_use || !receiver->session().is_finished()) return false;
    add(gone_, *receiver);
    if (!closed_) note_closed(deps_.logger, "prefill", receiver->session().why_closed());
    return true;
  });
}

void ReceivingLink::close() {
  closed_ = true;
  for (const auto& receiver : receivers_) {
    receiver->close(Fault::kShutdown, "the decode worker leaves");
    hear_ends(*receiver);
  }
}

std::optional<transfer::Handoff> ReceivingLink::receive() {
  for (const auto& receiver : receivers_) {
    if (auto arrival = receiver->receive()) {
      forget(arrival->transfer);
      return std::move(arrival->handoff);
    }
  }
  return std::nullopt;
}

std::optional<HandoffEnd> ReceivingLink::next_end() {
  if (ends_.empty()) return std::nullopt;
  std::optional<HandoffEnd> out(std::move(ends_.front()));
  ends_.pop_front();
  return out;
}

HandoffTotals ReceivingLink::totals() const {
  HandoffTotals totals = gone_;
  for (const auto& receiver : receivers_) add(totals, *receiver);
  return totals;
}

void ReceivingLink::add_holders(std::vector<kv::PageRef>& holders) const {
  for (const auto& receiver : receivers_) receiver->add_holders(holders);
}

int32_t ReceivingLink::quarantined_pages() const {
  int32_t pages = 0;
  for (const auto& receiver : receivers_) pages += receiver->quarantined_pages();
  return pages;
}

}  // namespace bulkhead::serve::roles
