#include "serve/roles/worker/decode_worker.h"

#include <utility>

#include "base/check.h"
#include "wire/faults.h"

namespace bulkhead::serve::roles {

using wire::Slot;
using wire::StepOutcome;

DecodeWorker::DecodeWorker(const WorkerOptions& options, transfer::remote::Transport& transport,
                           wire::DecodePort& pool, DecodeHandoff& handoff, const base::Clock& clock,
                           base::Logger* logger)
    : Worker(options, transport, clock, logger), pool_(pool), handoff_(handoff), stages_(slots()) {}

bool DecodeWorker::hear(wire::WorkerMessage& message) {
  const auto* expect = std::get_if<wire::Expect>(&message);
  if (expect == nullptr) return false;
  const auto slot = enter(expect->attempt);
  if (!slot) return false;
  stages_[*slot] = Stage::kWaiting;
  waiting_.push_back({*slot, *expect});
  return true;
}

StepOutcome DecodeWorker::run() {
  handoff_.poll();
  hear_ends();
  while (expect_next()) {
  }
  BH_CHECK(pool_.prepare(*this), "what was promised is there");
  const StepOutcome outcome = pool_.step(*this).outcome;
  const bool busy = !waiting_.empty() || handoff_.in_transit() > 0;
  return outcome == StepOutcome::kIdle && busy ? StepOutcome::kCommitted : outcome;
}

bool DecodeWorker::expect_next() {
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const Slot slot = waiting_[i].slot;
    base::Result<Opening> opened = Opening::kWait;
    if (started_too_late(slot)) {
      opened = wire::fault(wire::kTransferFailed,
                           "decode found no pages for it, or not its prefill worker");
    } else {
      opened = handoff_.expect(slot, waiting_[i].what);
    }
    if (opened.ok() && *opened == Opening::kWait) continue;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    stages_[slot] = Stage::kExpected;
    if (!opened.ok()) {
      fail(slot, std::move(opened).error());
      leave(slot);
    }
    return true;
  }
  return false;
}

void DecodeWorker::cancel(Slot slot) {
  switch (stages_[slot]) {
    case Stage::kWaiting:
      std::erase_if(waiting_, [slot](const Waiting& one) { return one.slot == slot; });
      leave(slot);
      return;
    case Stage::kExpected:
      handoff_.abandon(slot);  // leaves with its end
      return;
    case Stage::kRunning:
      pool_.abort(slot, *this);
      return;
  }
}

void DecodeWorker::on_accepted(Slot slot) {
  stages_[slot] = Stage::kRunning;
  if (!attempt(slot).over) tell(wire::Accepted{attempt(slot).id});
}

void DecodeWorker::hear_ends() {
  while (auto end = handoff_.next_end()) {
    if (end->error) fail(end->slot, *std::move(end->error));
    leave(end->slot);
  }
}

}  // namespace bulkhead::serve::roles
