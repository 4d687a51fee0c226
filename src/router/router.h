// Owns every request from submission to its one FinishEvent, and decides what each step runs.
//
// Threads: Generator's functions and drain(), drained() by any thread; step() and wait() by the
// step thread alone. Invariants: every accepted request gets exactly one FinishEvent, after its
// last token; cancellation, deadline and shutdown act between steps only; requests are admitted in
// the order of priority and arrival, and none overtakes one that does not fit yet; when the cache
// runs out the youngest gives way and later goes on exactly where it was; a step decodes every
// running sequence once and prefills at most one chunk, so neither can starve the other; a step
// that admits and ends nothing allocates nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "router/inbox.h"
#include "router/request_state.h"
#include "router/step_log.h"
#include "router/step_metrics.h"
#include "router/waiting_queue.h"
#include "wire/generate.h"
#include "wire/pools.h"

namespace bulkhead::router {

struct RouterDeps {
  wire::PrefillPort& prefill;
  wire::DecodePort& decode;
  const base::Clock& clock;
  telemetry::Registry& registry;
  base::Logger* logger = nullptr;  // of the periodic lines; may be absent
};

class Router final : public wire::Generator, private wire::PoolEvents {
 public:
  // At most running_max + queued_max requests live at a time; running_max of them in the pools.
  Router(const wire::GenerateLimits& limits, const RouterDeps& deps);
  ~Router() override;

  const wire::GenerateLimits& limits() const override { return limits_; }
  wire::GeneratorStatus status() const override;
  wire::RequestId next_id() override { return ++last_id_; }
  base::Status submit_all(std::vector<wire::Submission> batch) override;
  void cancel(wire::RequestId id) override { inbox_.cancel(id); }
  void flush_cache() override { inbox_.flush(); }

  // Refuses new requests from now on; accepted ones go on until `deadline` (on the clock given at
  // construction) and are ended there.
  void drain(std::chrono::nanoseconds deadline);
  // Draining, and every accepted request has ended.
  bool drained() const;

  // One round: events, admission, one decode step, at most one prefill chunk.
  wire::StepOutcome step();
  // Ends every request that waits for admission: whom it waits for will not come. Step thread.
  void end_waiting(const base::Error& error);
  // Sleeps until another thread asks for something, at most `timeout`.
  void wait(std::chrono::nanoseconds timeout) { inbox_.wait(timeout); }

 private:
  struct Request;

  void on_prompt(wire::Slot slot, wire::PromptEvent event) override;
  void on_token(wire::Slot slot, wire::TokenEvent event) override;
  void on_offered(wire::Slot slot) override;
  void on_accepted(wire::Slot slot) override;
  void on_end(wire::Slot slot, wire::Ending ending) override;
  void on_released(wire::Slot slot) override;
  void on_cached(wire::Slot slot, int32_t tokens) override;
  void on_returned(wire::Slot slot, wire::SequenceState state) override;

  void take_inbox();
  void apply_deadlines();
  void apply_shutdown();
  void admit();
  wire::StepOutcome run_pools();
  void preempt_youngest();
  // Pages failed a check, so that what was to fit when it was accepted may fit no more.
  bool lost_pages() const;
  bool waits_for_leader(const Request& request) const;
  wire::PageGauges decode_pages() const;
  LogScene scene(const wire::PageGauges& pages, int32_t cache_tokens) const;
  void enter(Arrival arrival);
  // True when the event moved the request.
  bool apply(wire::Slot slot, RequestEvent event);
  void end_early(wire::Slot slot, RequestEvent event, wire::Ending ending);
  void conclude(Request& request);
  void publish();

  const wire::GenerateLimits limits_;
  RouterDeps deps_;
  Inbox inbox_;
  std::vector<Request> requests_;  // by slot
  std::vector<wire::Slot> free_;   // slots without a request
  WaitingQueue queued_;
  std::vector<Arrival> arrivals_;  // scratch of take_inbox()
  std::vector<wire::RequestId> cancellations_;
  uint32_t running_ = 0;                    // admitted and not released
  bool closed_ = false;                     // no submission will arrive any more
  std::chrono::nanoseconds now_{0};         // of the step's last clock reading
  std::chrono::nanoseconds next_deadline_;  // no live request has an earlier one
  uint64_t arrivals_seen_ = 0;
  std::atomic<uint64_t> last_id_{0};
  std::atomic<int64_t> drain_deadline_;     // nanoseconds
  std::atomic<uint32_t> running_shown_{0};  // what status() tells other threads
  std::atomic<uint32_t> waiting_shown_{0};
  std::atomic<int64_t> last_progress_{0};
  std::atomic<bool> drained_{false};
  StepMetrics decode_steps_;
  StepMetrics prefill_steps_;
  SchedulerMetrics between_steps_;
  StepLog log_;
};

}  // namespace bulkhead::router
