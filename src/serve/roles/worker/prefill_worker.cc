#include "serve/roles/worker/prefill_worker.h"

#include <algorithm>
#include <utility>

#include "wire/faults.h"

namespace bulkhead::serve::roles {

using wire::Slot;
using wire::StepOutcome;

namespace {

constexpr base::Nanoseconds kRestPause{100'000'000};

}  // namespace

PrefillWorker::PrefillWorker(const WorkerOptions& options, transfer::remote::Transport& transport,
                             wire::PrefillPort& pool, PrefillHandoff& handoff,
                             const base::Clock& clock, base::Logger* logger)
    : Worker(options, transport, clock, logger),
      pool_(pool),
      handoff_(handoff),
      holders_(slots()) {}

bool PrefillWorker::hear(wire::WorkerMessage& message) {
  if (std::holds_alternative<wire::FlushCache>(message)) {
    pool_.flush_cache();
    return true;
  }
  auto* submit = std::get_if<wire::Submit>(&message);
  if (submit == nullptr) return false;
  const auto slot = enter(submit->attempt);
  if (!slot) return false;
  submit->state.slot = *slot;
  submit->state.id = submit->attempt.low;  // of this try alone, which a slot is not
  holders_[*slot] = {.waiting = true};
  waiting_.push_back(
      {*slot, std::move(submit->state), std::move(submit->decode_address), submit->decode_boot});
  return true;
}

StepOutcome PrefillWorker::run() {
  handoff_.poll();
  hear_ends();
  while (admit_next()) {
  }
  const StepOutcome outcome = pool_.step(*this).outcome;
  const bool busy = !waiting_.empty() || handoff_.in_transit() > 0;
  if (outcome == StepOutcome::kIdle && !busy && clock().now() >= next_rest_) {
    pool_.rest();
    next_rest_ = clock().now() + kRestPause;
  }
  return outcome == StepOutcome::kIdle && busy ? StepOutcome::kCommitted : outcome;
}

// Takes the oldest prompt that can be taken one step further; false when all have to wait. One that
// waits for its decode worker holds up nobody; one that waits for pages does, so that it gets some.
bool PrefillWorker::admit_next() {
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const Slot slot = waiting_[i].slot;
    if (started_too_late(slot)) {
      fail(slot, wire::fault(wire::kTransferFailed, "prefill found no pages or no way to decode"));
      drop_waiting(slot);
      return true;
    }
    auto reached = reach_decode(waiting_[i]);
    if (!reached.ok()) {
      fail(slot, std::move(reached).error());
      drop_waiting(slot);
      return true;
    }
    if (*reached == Opening::kWait) continue;
    const auto admission = pool_.admit(waiting_[i].state, 0);
    if (!admission) return false;
    tell(wire::Admitted{attempt(slot).id, admission->cached_tokens});
    holders_[slot].waiting = false;
    holders_[slot].pool = true;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

base::Result<Opening> PrefillWorker::reach_decode(const Waiting& one) {
  Holders& holders = holders_[one.slot];
  if (one.decode_address.empty() || holders.handoff) return Opening::kDone;
  BH_ASSIGN(const Opening opened, handoff_.open(one.slot, attempt(one.slot).id, one.decode_address,
                                                one.decode_boot, one.state.prompt_tokens));
  holders.handoff = opened == Opening::kDone;
  return opened;
}

void PrefillWorker::drop_waiting(Slot slot) {
  std::erase_if(waiting_, [slot](const Waiting& one) { return one.slot == slot; });
  holders_[slot].waiting = false;
  settle(slot);
}

void PrefillWorker::cancel(Slot slot) {
  if (holders_[slot].waiting) {
    drop_waiting(slot);
  } else if (holders_[slot].pool) {
    pool_.abort(slot, *this);
  } else {
    settle(slot);
  }
}

void PrefillWorker::on_offered(Slot slot) {
  holders_[slot].pool = false;
  if (!attempt(slot).over) tell(wire::Offered{attempt(slot).id});
}

void PrefillWorker::on_released(Slot slot) {
  holders_[slot].pool = false;
  settle(slot);
}

// The attempt may be over: whoever still holds something lets go, and then it leaves.
void PrefillWorker::settle(Slot slot) {
  const Holders& holders = holders_[slot];
  if (holders.waiting || holders.pool) return;
  if (holders.handoff) {
    if (attempt(slot).over) handoff_.abandon(slot);
    return;
  }
  leave(slot);
}

void PrefillWorker::hear_ends() {
  while (auto end = handoff_.next_end()) {
    const Slot slot = end->slot;
    Holders& holders = holders_[slot];
    holders.handoff = false;
    if (end->error) fail(slot, *std::move(end->error));
    if (holders.waiting) {
      drop_waiting(slot);
    } else if (holders.pool) {
      pool_.abort(slot, *this);
    } else {
      settle(slot);
    }
  }
}

}  // namespace bulkhead::serve::roles
