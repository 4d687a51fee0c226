// The prefill role: prompts from the gateway, through the pool, to decode workers.
//
// Threads: as Worker. Invariants: prompts enter the pool in the order they came; one that has to be
// handed over enters only once its decode worker is reached; its attempt is released when neither
// the pool nor the handoff holds pages for it.
#pragma once

#include <deque>

#include "prefill/prefill_pool.h"
#include "serve/roles/worker/handoff.h"
#include "serve/roles/worker/worker.h"

namespace bulkhead::serve::roles {

class PrefillWorker final : public Worker {
 public:
  // `pool` offers to `handoff`.
  PrefillWorker(const WorkerOptions& options, transfer::remote::Transport& transport,
                wire::PrefillPort& pool, PrefillHandoff& handoff, const base::Clock& clock,
                base::Logger* logger);

 private:
  struct Waiting {
    wire::Slot slot = 0;
    wire::SequenceState state;
    std::string decode_address;
    uint64_t decode_boot = 0;
  };
  struct Holders {
    bool waiting = false;
    bool pool = false;
    bool handoff = false;
  };

  bool hear(wire::WorkerMessage& message) override;
  void cancel(wire::Slot slot) override;
  wire::StepOutcome run() override;
  wire::PageGauges gauges() const override { return pool_.pages(); }
  void close_handoffs() override { handoff_.close(); }
  bool handoffs_closed() const override { return handoff_.is_closed(); }

  void on_offered(wire::Slot slot) override;
  void on_accepted(wire::Slot) override {}
  void on_released(wire::Slot slot) override;

  bool admit_next();
  base::Result<Opening> reach_decode(const Waiting& one);
  void drop_waiting(wire::Slot slot);
  void settle(wire::Slot slot);
  void hear_ends();

  wire::PrefillPort& pool_;
  PrefillHandoff& handoff_;
  std::deque<Waiting> waiting_;
  std::vector<Holders> holders_;    // by slot
  base::Nanoseconds next_rest_{0};  // when the pool may do what can wait
};

}  // namespace bulkhead::serve::roles
