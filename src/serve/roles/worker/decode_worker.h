// The decode role: pages promised to prefill workers, and one token a step for what arrived.
//
// Threads: as Worker. Invariants: what the gateway asked for is promised in the order it asked; the
// worst case is promised before anything arrives, so nothing is ever preempted; an attempt is
// released when neither the handoff nor the pool holds pages for it.
#pragma once

#include <deque>

#include "decode/decode_pool.h"
#include "serve/roles/worker/handoff.h"
#include "serve/roles/worker/worker.h"

namespace bulkhead::serve::roles {

class DecodeWorker final : public Worker {
 public:
  // `pool` receives from `handoff`.
  DecodeWorker(const WorkerOptions& options, transfer::remote::Transport& transport,
               wire::DecodePort& pool, DecodeHandoff& handoff, const base::Clock& clock,
               base::Logger* logger);

 private:
  enum class Stage : uint8_t { kWaiting, kExpected, kRunning };

  bool hear(wire::WorkerMessage& message) override;
  void cancel(wire::Slot slot) override;
  wire::StepOutcome run() override;
  wire::PageGauges gauges() const override { return pool_.pages().value_or(wire::PageGauges{}); }
  uint64_t writes_refused() const override { return handoff_.writes_refused(); }
  void close_handoffs() override { handoff_.close(); }
  bool handoffs_closed() const override { return handoff_.is_closed(); }

  void on_offered(wire::Slot) override {}
  void on_accepted(wire::Slot slot) override;
  void on_released(wire::Slot slot) override { leave(slot); }

  bool expect_next();
  void hear_ends();

  struct Waiting {
    wire::Slot slot = 0;
    wire::Expect what;
  };

  wire::DecodePort& pool_;
  DecodeHandoff& handoff_;
  std::deque<Waiting> waiting_;
  std::vector<Stage> stages_;  // by slot
};

}  // namespace bulkhead::serve::roles
