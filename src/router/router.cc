#include "router/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "router/request_check.h"

namespace bulkhead::router {

using std::chrono::nanoseconds;
using wire::Slot;
using wire::StepOutcome;

namespace {

constexpr nanoseconds kNever = nanoseconds::max();

wire::Ending no_room_left() {
  return {wire::FinishReason::kError, wire::TokenId{-1},
          base::Error{base::ErrorCode::kResourceExhausted,
                      "the cache has lost pages to failed checks, and what is left does not hold "
                      "this request; try a shorter one, or another server",
                      {}}};
}

}  // namespace

struct Router::Request {
  RequestState state = RequestState::kDone;
  wire::SequenceState sequence;  // while queued
  std::shared_ptr<wire::EventSink> sink;
  wire::RequestId id = 0;
  Rank rank;
  wire::RequestId leader = 0;
  Slot leader_slot = 0;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  bool cache_known = false;  // cached_tokens is that of the first admission
  int32_t preemptions = 0;
  int32_t completion_tokens = 0;
  nanoseconds deadline = kNever;
  nanoseconds submitted{0};
  std::optional<nanoseconds> admitted;
  nanoseconds first_token{0};
  wire::Ending ending;
};

Router::Router(const wire::GenerateLimits& limits, const RouterDeps& deps)
    : limits_(limits),
      deps_(deps),
      inbox_(limits.running_max + limits.queued_max),
      requests_(limits.running_max + limits.queued_max),
      queued_(requests_.size()),
      next_deadline_(kNever),
      drain_deadline_(kNever.count()),
      decode_steps_(deps.registry, "decode"),
      prefill_steps_(deps.registry, "prefill"),
      between_steps_(deps.registry),
      log_(deps.logger) {
  BH_CHECK(limits.running_max > 0, "room for one request at least");
  const size_t slots = requests_.size();
  free_.reserve(slots);
  arrivals_.reserve(slots);
  cancellations_.reserve(slots);
  for (size_t slot = slots; slot-- > 0;) free_.push_back(static_cast<Slot>(slot));
  now_ = deps.clock.now();
  publish();
}

Router::~Router() = default;

wire::GeneratorStatus Router::status() const {
  wire::GeneratorStatus status;
  status.running = running_shown_.load(std::memory_order_relaxed);
  status.waiting = waiting_shown_.load(std::memory_order_relaxed);
  status.pages = deps_.prefill.pages();
  if (const auto own = deps_.decode.pages()) {
    status.prefill_pages = std::exchange(status.pages, *own);
  }
  status.decode_tokens_per_second = log_.decode_rate(deps_.clock.now());
  status.draining = inbox_.closed();
  status.last_progress = nanoseconds(last_progress_.load(std::memory_order_relaxed));
  return status;
}

base::Status Router::submit_all(std::vector<wire::Submission> batch) {
  for (const wire::Submission& one : batch) {
    BH_CHECK(one.sink != nullptr, "somebody receives the events");
    BH_TRY(check_request(one.request, limits_));
  }
  return inbox_.submit(std::move(batch), deps_.clock.now());
}

void Router::drain(nanoseconds deadline) {
  drain_deadline_.store(deadline.count(), std::memory_order_relaxed);
  inbox_.close();
}

bool Router::drained() const { return drained_.load(std::memory_order_acquire); }

StepOutcome Router::step() {
  now_ = deps_.clock.now();
  // Read before the inbox: everything accepted before the close is then in what is taken.
  closed_ = inbox_.closed();
  const nanoseconds start = now_;
  take_inbox();
  apply_deadlines();
  apply_shutdown();
  admit();
  const nanoseconds before_pools = deps_.clock.now();
  const StepOutcome outcome = run_pools();
  const nanoseconds after_pools = now_;
  publish();
  if (outcome == StepOutcome::kIdle) {
    deps_.prefill.rest();
  } else {
    between_steps_.record((before_pools - start) + (deps_.clock.now() - after_pools));
  }
  return outcome;
}

void Router::take_inbox() {
  inbox_.take(arrivals_, cancellations_);
  if (inbox_.take_flush()) deps_.prefill.flush_cache();
  for (Arrival& arrival : arrivals_) enter(std::move(arrival));
  arrivals_.clear();
  for (const wire::RequestId id : cancellations_) {
    for (Slot slot = 0; slot < requests_.size(); ++slot) {
      if (requests_[slot].state == RequestState::kDone || requests_[slot].id != id) continue;
      end_early(slot, RequestEvent::kCancelled,
                {wire::FinishReason::kCancelled, wire::TokenId{-1}, std::nullopt});
      break;
    }
  }
  cancellations_.clear();
}

void Router::enter(Arrival arrival) {
  BH_CHECK(!free_.empty(), "the inbox accepts no more requests than there are slots");
  const Slot slot = free_.back();
  free_.pop_back();
  Request& request = requests_[slot];
  request = Request{};
  request.state = RequestState::kQueued;
  request.id = arrival.request.id;
  request.prompt_tokens = static_cast<int32_t>(arrival.request.prompt.size());
  request.deadline = arrival.request.deadline.value_or(kNever);
  request.submitted = arrival.at;
  request.rank = {arrival.request.priority, ++arrivals_seen_};
  request.leader = arrival.request.leader;
  request.sequence = wire::SequenceState(std::move(arrival.request), slot);
  request.sink = std::move(arrival.sink);
  next_deadline_ = std::min(next_deadline_, request.deadline);
  queued_.insert(request.rank, slot);
  if (request.leader == 0) return;
  for (Slot other = 0; other < requests_.size(); ++other) {
    if (requests_[other].id == request.leader) request.leader_slot = other;
  }
}

bool Router::waits_for_leader(const Request& request) const {
  if (request.leader == 0) return false;
  const Request& leader = requests_[request.leader_slot];
  return leader.id == request.leader &&
         (leader.state == RequestState::kQueued || leader.state == RequestState::kPrefilling);
}

void Router::apply_deadlines() {
  if (now_ < next_deadline_) return;
  next_deadline_ = kNever;
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    const Request& request = requests_[slot];
    if (request.state == RequestState::kDone) continue;
    if (request.deadline <= now_) {
      end_early(slot, RequestEvent::kDeadline,
                {wire::FinishReason::kDeadline, wire::TokenId{-1}, std::nullopt});
    } else {
      next_deadline_ = std::min(next_deadline_, request.deadline);
    }
  }
}

void Router::apply_shutdown() {
  if (!closed_ || now_ < nanoseconds(drain_deadline_.load(std::memory_order_relaxed))) {
    return;
  }
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].state == RequestState::kDone) continue;
    end_early(slot, RequestEvent::kShutdown,
              {wire::FinishReason::kCancelled, wire::TokenId{-1},
               base::Error{base::ErrorCode::kUnavailable, "the server is shutting down", {}}});
  }
}

void Router::admit() {
  size_t next = 0;
  while (next < queued_.size() && running_ < limits_.running_max) {
    const Slot slot = queued_.at(next);
    Request& request = requests_[slot];
    if (waits_for_leader(request)) {
      ++next;
      continue;
    }
    // Later requests do not overtake one that does not fit yet: nobody waits for ever. With nobody
    // running there is nothing to wait for, unless workers are still to come.
    const bool in_vain = running_ == 0 && lost_pages();
    if (!deps_.decode.reserve(request.sequence)) {
      if (!in_vain) break;
      end_early(slot, RequestEvent::kShutdown, no_room_left());
      continue;
    }
    // A page to spare for everybody who runs already: whoever enters should not drive out others
    // at once.
    const auto admission = deps_.prefill.admit(request.sequence, static_cast<int32_t>(running_));
    if (!admission) {
      deps_.decode.unreserve(slot);
      if (!in_vain) break;
      end_early(slot, RequestEvent::kShutdown, no_room_left());
      continue;
    }
    queued_.erase(slot);
    ++running_;
    log_.admitted(*admission);
    if (!request.admitted) {
      request.admitted = now_;
      request.cached_tokens = admission->cached_tokens;
    }
    apply(slot, RequestEvent::kAdmitted);
  }
}

bool Router::lost_pages() const {
  return deps_.prefill.pages().quarantined > 0 || decode_pages().quarantined > 0;
}

// Somebody has to give up pages: the lowest priority's youngest, wherever it is.
void Router::preempt_youngest() {
  std::optional<Slot> youngest;
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    const Request& request = requests_[slot];
    const bool holds_pages = request.state == RequestState::kPrefilling ||
                             request.state == RequestState::kTransferring ||
                             request.state == RequestState::kDecoding;
    if (holds_pages && (!youngest || requests_[*youngest].rank < request.rank)) youngest = slot;
  }
  BH_CHECK(youngest && (running_ > 1 || lost_pages()),
           "a request that has the cache to itself fits");
  if (running_ <= 1) return end_early(*youngest, RequestEvent::kShutdown, no_room_left());
  Request& request = requests_[*youngest];
  auto sequence = request.state == RequestState::kPrefilling ? deps_.prefill.preempt(*youngest)
                                                             : deps_.decode.preempt(*youngest);
  BH_CHECK(sequence.has_value(), "a request is in the pool that its state says");
  request.sequence = std::move(*sequence);
  ++request.preemptions;
  --running_;
  apply(*youngest, RequestEvent::kPreempted);
  queued_.insert(request.rank, *youngest);
}

StepOutcome Router::run_pools() {
  const nanoseconds start = deps_.clock.now();
  while (!deps_.decode.prepare(*this)) preempt_youngest();
  const wire::StepReport decoded = deps_.decode.step(*this);
  now_ = deps_.clock.now();
  const nanoseconds middle = now_;
  decode_steps_.record(decoded, middle - start);
  log_.decoded(decoded, scene(decode_pages(), limits_.cache_tokens));
  const wire::StepReport prefilled = deps_.prefill.step(*this);
  now_ = deps_.clock.now();
  prefill_steps_.record(prefilled, now_ - middle);
  const int32_t own_tokens = limits_.prefill_cache_tokens;
  log_.prefilled(prefilled,
                 scene(deps_.prefill.pages(), own_tokens > 0 ? own_tokens : limits_.cache_tokens));
  return std::max(decoded.outcome, prefilled.outcome);
}

wire::PageGauges Router::decode_pages() const {
  const auto own = deps_.decode.pages();
  return own ? *own : deps_.prefill.pages();
}

LogScene Router::scene(const wire::PageGauges& pages, int32_t cache_tokens) const {
  LogScene scene;
  scene.now = now_;
  scene.running = running_;
  scene.queued = static_cast<uint32_t>(queued_.size());
  if (pages.total > 0) {
    scene.usage = static_cast<double>(pages.used()) / pages.total;
    scene.tokens_used = int64_t{pages.used()} * (cache_tokens / pages.total);
  }
  return scene;
}

void Router::publish() {
  running_shown_.store(running_, std::memory_order_relaxed);
  waiting_shown_.store(static_cast<uint32_t>(queued_.size()), std::memory_order_relaxed);
  last_progress_.store(now_.count(), std::memory_order_relaxed);
  const bool idle = free_.size() == requests_.size();
  if (idle && closed_) drained_.store(true, std::memory_order_release);
}

// --- what the pools report

void Router::on_prompt(Slot slot, wire::PromptEvent event) {
  requests_[slot].sink->on_prompt(std::move(event));
}

void Router::on_token(Slot slot, wire::TokenEvent event) {
  Request& request = requests_[slot];
  BH_CHECK(request.state == RequestState::kPrefilling || request.state == RequestState::kDecoding,
           "tokens come from a pool that holds the request");
  if (request.completion_tokens == 0) request.first_token = deps_.clock.now();
  ++request.completion_tokens;
  request.sink->on_token(std::move(event));
}

void Router::on_offered(Slot slot) { apply(slot, RequestEvent::kOffered); }

void Router::on_accepted(Slot slot) { apply(slot, RequestEvent::kAccepted); }

void Router::on_end(Slot slot, wire::Ending ending) {
  const bool failed = ending.reason == wire::FinishReason::kError;
  if (apply(slot, failed ? RequestEvent::kFailed : RequestEvent::kEnded)) {
    requests_[slot].ending = std::move(ending);
  }
}

void Router::on_released(Slot slot) {
  BH_CHECK(running_ > 0, "a release of an admitted request");
  --running_;
  deps_.decode.unreserve(slot);  // it may have ended before it got there
  apply(slot, RequestEvent::kReleased);
}

void Router::on_cached(Slot slot, int32_t tokens) {
  Request& request = requests_[slot];
  log_.cached(tokens);
  if (!std::exchange(request.cache_known, true)) request.cached_tokens = tokens;
}

void Router::on_returned(Slot slot, wire::SequenceState state) {
  BH_CHECK(running_ > 0, "a return of an admitted request");
  Request& request = requests_[slot];
  request.sequence = std::move(state);
  --running_;
  deps_.decode.unreserve(slot);
  apply(slot, RequestEvent::kPreempted);
  queued_.insert(request.rank, slot);
}

void Router::end_waiting(const base::Error& error) {
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].state != RequestState::kQueued) continue;
    end_early(slot, RequestEvent::kShutdown,
              {wire::FinishReason::kError, wire::TokenId{-1}, error});
  }
}

// --- the life of a request

bool Router::apply(Slot slot, RequestEvent event) {
  Request& request = requests_[slot];
  const Transition next = transition(request.state, event);
  BH_CHECK(next.verdict != Verdict::kImpossible,
           fmt::format("event {} in state {}", to_string(event), to_string(request.state)));
  if (next.verdict == Verdict::kIgnore) return false;
  request.state = next.to;
  if (next.to == RequestState::kDone) {
    conclude(request);
    free_.push_back(slot);
  }
  return true;
}

void Router::end_early(Slot slot, RequestEvent event, wire::Ending ending) {
  Request& request = requests_[slot];
  const RequestState from = request.state;
  if (transition(from, event).verdict == Verdict::kMove) request.ending = std::move(ending);
  if (from == RequestState::kQueued) queued_.erase(slot);
  if (!apply(slot, event)) return;
  if (from == RequestState::kPrefilling) deps_.prefill.abort(slot, *this);
  if (from == RequestState::kTransferring || from == RequestState::kDecoding) {
    deps_.decode.abort(slot, *this);
  }
}

// The one place that writes a terminal record.
void Router::conclude(Request& request) {
  const nanoseconds now = deps_.clock.now();
  const bool has_tokens = request.completion_tokens > 0;
  wire::FinishEvent event;
  event.id = request.id;
  event.reason = request.ending.reason;
  event.stop_id = request.ending.stop_id;
  event.error = std::move(request.ending.error);
  event.prompt_tokens = request.prompt_tokens;
  event.cached_tokens = request.cached_tokens;
  event.preemptions = request.preemptions;
  event.completion_tokens = request.completion_tokens;
  event.queue_time = request.admitted.value_or(now) - request.submitted;
  if (request.admitted) {
    event.prefill_time = (has_tokens ? request.first_token : now) - *request.admitted;
  }
  if (has_tokens) event.decode_time = now - request.first_token;
  inbox_.forget(request.id);
  request.sequence = {};
  const std::shared_ptr<wire::EventSink> sink = std::move(request.sink);
  sink->on_finish(std::move(event));
}

}  // namespace bulkhead::router
