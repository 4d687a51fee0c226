// A worker's loop around its pool: hears the gateway, applies what it says between steps, runs the
// pool, and tells what happened.
//
// Threads: step() by the step thread; drain(), leave_now(), has_left() and status() by any.
// Invariants: one gateway at a time, and only one that knows the deployment's key; a gateway that
// is lost takes everything it asked for with it; each attempt gets exactly one Released, after
// which nothing is held for it; attempts are bounded by sequences_max, whatever a gateway sends.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "serve/roles/worker_session.h"
#include "wire/pools.h"

namespace bulkhead::serve::roles {

struct WorkerOptions {
  WorkerSessionOptions session;                 // with the worker's hello
  base::Nanoseconds start_max{20'000'000'000};  // for an attempt to find pages and peer
};

class Worker : protected wire::PoolEvents {
 public:
  Worker(const WorkerOptions& options, transfer::remote::Transport& transport,
         const base::Clock& clock, base::Logger* logger);

  // One round; what it says decides whether the caller may rest.
  wire::StepOutcome step();
  // Takes nothing new from now on, and takes its leave once nothing is held.
  void drain() { draining_.store(true, std::memory_order_relaxed); }
  // Takes its leave now: what is held ends.
  void leave_now() { leaving_.store(true, std::memory_order_relaxed); }
  // Everybody was told, and the last words are out.
  bool has_left() const { return left_.load(std::memory_order_acquire); }

  // What it has, and when it last made a step.
  wire::GeneratorStatus status() const;

  size_t attempts() const { return by_attempt_.size(); }
  bool has_gateway() const { return session_ != nullptr && session_->is_open(); }

 protected:
  struct Attempt {
    bool live = false;
    bool over = false;  // its end was told, or the gateway wants it no more
    wire::AttemptId id;
    base::Nanoseconds since{0};
  };

  // What each role does. A word that is not of the role's is a mistake of the gateway.
  virtual bool hear(wire::WorkerMessage& message) = 0;
  virtual void cancel(wire::Slot slot) = 0;
  // Applies what waits and runs the pool once.
  virtual wire::StepOutcome run() = 0;
  virtual wire::PageGauges gauges() const = 0;  // any thread
  virtual uint64_t writes_refused() const { return 0; }
  // Leaves the workers of the other role; whether their last words are out.
  virtual void close_handoffs() = 0;
  virtual bool handoffs_closed() const = 0;

  // A slot for a new attempt; nothing when the gateway gave more than was agreed, or one twice.
  std::optional<wire::Slot> enter(const wire::AttemptId& id);
  void leave(wire::Slot slot);  // tells Released
  void fail(wire::Slot slot, base::Error error);
  void tell(const wire::WorkerMessage& message);
  Attempt& attempt(wire::Slot slot) { return attempts_[slot]; }
  bool started_too_late(wire::Slot slot) const;
  const base::Clock& clock() const { return clock_; }
  size_t slots() const { return attempts_.size(); }

 private:
  void on_prompt(wire::Slot slot, wire::PromptEvent event) final;
  void on_token(wire::Slot slot, wire::TokenEvent event) final;
  void on_end(wire::Slot slot, wire::Ending ending) final;
  void on_cached(wire::Slot slot, int32_t tokens) final;
  void on_returned(wire::Slot slot, wire::SequenceState state) final;

  void greet();
  bool listen_to_gateway();
  void lose_gateway();
  void end_attempts();
  void take_leave();
  void see_off();
  void dispatch(wire::WorkerMessage message);
  void beat(bool now);

  const WorkerOptions options_;
  transfer::remote::Transport& transport_;
  const base::Clock& clock_;
  base::Logger* logger_;
  std::unique_ptr<WorkerSession> session_;                 // of the gateway
  std::vector<std::unique_ptr<WorkerSession>> callers_;    // not greeted yet, or refused
  std::vector<std::unique_ptr<WorkerSession>> departing_;  // closed; their last word has to leave
  std::vector<Attempt> attempts_;                          // by slot
  std::vector<wire::Slot> free_;
  std::unordered_map<wire::AttemptId, wire::Slot, wire::AttemptHash> by_attempt_;
  bool told_draining_ = false;
  bool told_idle_ = true;
  bool took_leave_ = false;
  std::atomic<uint32_t> attempts_shown_{0};
  std::atomic<int64_t> last_step_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> left_{false};
};

}  // namespace bulkhead::serve::roles
