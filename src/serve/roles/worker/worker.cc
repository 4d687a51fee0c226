#include "serve/roles/worker/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::serve::roles {

using wire::Slot;
using wire::StepOutcome;
using wire::WorkerMessage;

namespace {

// Connections that have not said who they are: more are turned away.
constexpr size_t kCallersMax = 8;
// Of one step, so that a chatty gateway does not keep the pool from running.
constexpr int kMessagesPerStep = 256;

}  // namespace

Worker::Worker(const WorkerOptions& options, transfer::remote::Transport& transport,
               const base::Clock& clock, base::Logger* logger)
    : options_(options),
      transport_(transport),
      clock_(clock),
      logger_(logger),
      attempts_(options.session.identity.sequences_max) {
  const size_t slots = attempts_.size();
  BH_CHECK(slots > 0, "room for one attempt at least");
  free_.reserve(slots);
  for (size_t slot = slots; slot-- > 0;) free_.push_back(static_cast<Slot>(slot));
  by_attempt_.reserve(slots);
}

StepOutcome Worker::step() {
  transport_.progress();
  greet();
  const bool heard = listen_to_gateway();
  const StepOutcome outcome = run();
  const bool draining = draining_.load(std::memory_order_relaxed);
  // Who waits for the last request to be gone should not wait for a beat besides.
  const bool idle = by_attempt_.empty();
  const bool news = draining && !std::exchange(told_draining_, draining);
  beat(news || (idle && !told_idle_));
  told_idle_ = idle;
  if (leaving_.load(std::memory_order_relaxed) || (draining && idle)) take_leave();
  see_off();
  attempts_shown_.store(static_cast<uint32_t>(by_attempt_.size()), std::memory_order_relaxed);
  last_step_.store(clock_.now().count(), std::memory_order_relaxed);
  return heard && outcome == StepOutcome::kIdle ? StepOutcome::kCommitted : outcome;
}

wire::GeneratorStatus Worker::status() const {
  wire::GeneratorStatus status;
  status.running = attempts_shown_.load(std::memory_order_relaxed);
  status.pages = gauges();
  status.draining = draining_.load(std::memory_order_relaxed);
  status.last_progress = base::Nanoseconds(last_step_.load(std::memory_order_relaxed));
  return status;
}

// --- the gateway

void Worker::greet() {
  while (auto connection = transport_.accept()) {
    if (took_leave_ || callers_.size() >= kCallersMax) {
      connection->close();
      continue;
    }
    callers_.push_back(
        std::make_unique<WorkerSession>(options_.session, std::move(connection), clock_));
    // Before it proves itself, so that a second gateway never takes this worker for its own.
    if (session_ != nullptr) callers_.back()->close("this worker has a gateway already");
  }
  for (auto& caller : callers_) {
    caller->tick();
    if (caller->is_closed()) continue;
    (void)caller->poll();  // opens it, or ends it
    if (!caller->is_open()) continue;
    if (session_ != nullptr) {
      caller->close("this worker has a gateway already");
    } else {
      session_ = std::move(caller);
      if (logger_ != nullptr) {
        logger_->info("a gateway joined", {{"gateway", session_->peer().label}});
      }
    }
  }
  std::erase_if(callers_, [this](const std::unique_ptr<WorkerSession>& caller) {
    if (caller == nullptr) return true;
    if (!caller->is_finished()) return false;
    if (logger_ != nullptr) {
      logger_->warning("a connection is refused", {{"reason", caller->why_closed()}});
    }
    return true;
  });
}

bool Worker::listen_to_gateway() {
  if (session_ == nullptr) return false;
  session_->tick();
  bool heard = false;
  for (int i = 0; i < kMessagesPerStep; ++i) {
    auto message = session_->poll();
    if (!message) break;
    heard = true;
    dispatch(*std::move(message));
  }
  if (session_->is_closed()) lose_gateway();
  return heard;
}

void Worker::dispatch(WorkerMessage message) {
  if (std::holds_alternative<wire::WorkerBeat>(message)) return;
  if (const auto* one = std::get_if<wire::Cancel>(&message)) {
    const auto found = by_attempt_.find(one->attempt);
    if (found == by_attempt_.end()) return;  // it ended meanwhile
    attempts_[found->second].over = true;
    cancel(found->second);
    return;
  }
  if (!hear(message)) {
    session_->close(fmt::format("a {} is not for this worker", name_of(message)));
  }
}

void Worker::lose_gateway() {
  if (logger_ != nullptr) {
    const std::initializer_list<base::LogField> fields = {{"reason", session_->why_closed()},
                                                          {"requests", uint64_t{attempts()}}};
    session_->was_left() ? logger_->warning("the gateway left", fields)
                         : logger_->error("the gateway is lost", fields);
  }
  // Its last word still has to leave; nobody hears what comes now.
  departing_.push_back(std::move(session_));
  end_attempts();
}

void Worker::end_attempts() {
  for (Slot slot = 0; slot < attempts_.size(); ++slot) {
    if (!attempts_[slot].live) continue;
    attempts_[slot].over = true;
    cancel(slot);
  }
}

// --- the end

void Worker::take_leave() {
  if (std::exchange(took_leave_, true)) return;
  if (session_ != nullptr) callers_.push_back(std::move(session_));
  for (auto& caller : callers_) {
    caller->close("the worker leaves");
    departing_.push_back(std::move(caller));
  }
  callers_.clear();
  end_attempts();
  close_handoffs();
}

void Worker::see_off() {
  for (auto& session : departing_) session->tick();
  std::erase_if(departing_, [](const auto& session) { return session->is_finished(); });
  if (took_leave_ && departing_.empty() && handoffs_closed()) {
    left_.store(true, std::memory_order_release);
  }
}

void Worker::beat(bool now) {
  if (session_ == nullptr || !(session_->beat_due() || now)) return;
  const wire::PageGauges pages = gauges();
  session_->post(wire::WorkerBeat{pages.total, pages.free, pages.cached,
                                  static_cast<uint32_t>(by_attempt_.size()),
                                  draining_.load(std::memory_order_relaxed), writes_refused()});
}

void Worker::tell(const WorkerMessage& message) {
  if (session_ != nullptr) session_->post(message);
}

// --- attempts

std::optional<Slot> Worker::enter(const wire::AttemptId& id) {
  if (free_.empty() || by_attempt_.contains(id)) return std::nullopt;
  const Slot slot = free_.back();
  free_.pop_back();
  attempts_[slot] = {true, false, id, clock_.now()};
  by_attempt_.emplace(id, slot);
  return slot;
}

void Worker::leave(Slot slot) {
  Attempt& one = attempts_[slot];
  BH_CHECK(one.live, "an attempt leaves once");
  tell(wire::Released{one.id});
  by_attempt_.erase(one.id);
  one = {};
  free_.push_back(slot);
}

void Worker::fail(Slot slot, base::Error error) {
  on_end(slot, {wire::FinishReason::kError, wire::TokenId{-1}, std::move(error)});
}

bool Worker::started_too_late(Slot slot) const {
  return clock_.now() - attempts_[slot].since > options_.start_max;
}

void Worker::on_prompt(Slot slot, wire::PromptEvent event) {
  if (!attempts_[slot].over) tell(wire::PromptScored{attempts_[slot].id, std::move(event)});
}

void Worker::on_token(Slot slot, wire::TokenEvent event) {
  if (!attempts_[slot].over) tell(wire::TokenMade{attempts_[slot].id, std::move(event)});
}

void Worker::on_end(Slot slot, wire::Ending ending) {
  if (std::exchange(attempts_[slot].over, true)) return;
  tell(wire::Ended{attempts_[slot].id, std::move(ending)});
}

void Worker::on_cached(Slot slot, int32_t tokens) {
  if (!attempts_[slot].over) tell(wire::Admitted{attempts_[slot].id, tokens});
}

void Worker::on_returned(Slot, wire::SequenceState) {
  BH_CHECK(false, "pools in this process run what they admitted");
}

}  // namespace bulkhead::serve::roles
