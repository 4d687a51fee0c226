#include "serve/roles/gateway/fleet_member.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace bulkhead::serve::roles {

using wire::WorkerMessage;

FleetMember::FleetMember(router::Member who, const MemberOptions& options, const base::Clock& clock,
                         base::Logger* logger)
    : who_(std::move(who)), options_(options), clock_(clock), logger_(logger) {
  next_try_ = clock_.now();
}

void FleetMember::connect(transfer::remote::Transport& transport) {
  auto connection = transport.connect(who_.address);
  if (!connection.ok()) {
    log_once(base::LogLevel::kWarning, "a worker cannot be reached", connection.error().message);
    next_try_ = clock_.now() + options_.reconnect;
    return;
  }
  session_ =
      std::make_unique<WorkerSession>(options_.session, std::move(connection).value(), clock_);
}

FleetMember::Change FleetMember::tick(transfer::remote::Transport& transport) {
  if (!session_ && !leaving_ && clock_.now() >= next_try_) connect(transport);
  if (!session_) return Change::kNone;
  session_->tick();
  if (session_->is_closed()) return note_end();
  if (session_->is_open() && !joined_) return note_open();
  if (session_->beat_due()) session_->post(wire::WorkerBeat{});
  return Change::kNone;
}

FleetMember::Change FleetMember::note_open() {
  const wire::WorkerHello& hello = session_->peer();
  if (hello.role != who_.role) {
    turn_away(fmt::format("the deployment calls this a {} worker and it is a {} worker",
                          to_string(who_.role), to_string(hello.role)));
    return Change::kNone;
  }
  if (hello.context_tokens < options_.context_tokens_min) {
    turn_away(fmt::format("the worker takes {} tokens of context, this deployment {}",
                          hello.context_tokens, options_.context_tokens_min));
    return Change::kNone;
  }
  joined_ = true;
  beat_ = {};
  load_ = {};
  const bool again = last_boot_ != 0;
  last_boot_ = hello.boot_nonce;
  last_logged_.clear();
  if (logger_ != nullptr) {
    logger_->info(again ? "a worker is back" : "a worker joined",
                  {{"worker", who_.label},
                   {"weights", hello.weights},
                   {"kv", hello.kv},
                   {"pages", int64_t{hello.pages}},
                   {"sequences", uint64_t{hello.sequences_max}}});
  }
  return Change::kJoined;
}

void FleetMember::turn_away(const std::string& why) {
  unfit_ = true;
  session_->close(why);
}

FleetMember::Change FleetMember::note_end() {
  const bool gone = std::exchange(joined_, false);
  // It finished what it had, and said so.
  const bool left = gone && beat_.draining && session_->was_left();
  if (gone) {
    if (!left) ++losses_;
    load_ = {};
    last_logged_.clear();
  }
  const bool refused = unfit_ || session_->was_refused();
  log_once(left              ? base::LogLevel::kInfo
           : gone || refused ? base::LogLevel::kError
                             : base::LogLevel::kWarning,
           left      ? "a worker left"
           : gone    ? "a worker is lost"
           : refused ? "a worker is refused"
                     : "a worker cannot be reached",
           session_->why_closed());
  if (session_->is_finished()) {
    unfit_ = false;
    session_.reset();
    next_try_ = clock_.now() + (refused ? options_.after_refusal : options_.reconnect);
  }
  return gone ? Change::kLost : Change::kNone;
}

// The same reason, every half second, is one line.
void FleetMember::log_once(base::LogLevel level, const std::string& what, const std::string& why) {
  if (logger_ == nullptr || why == last_logged_) return;
  last_logged_ = why;
  const std::initializer_list<base::LogField> fields = {{"worker", who_.label}, {"reason", why}};
  if (level == base::LogLevel::kError) {
    logger_->error(what, fields);
  } else if (level == base::LogLevel::kWarning) {
    logger_->warning(what, fields);
  } else {
    logger_->info(what, fields);
  }
}

std::optional<WorkerMessage> FleetMember::poll() {
  while (session_ && joined_) {
    auto message = session_->poll();
    if (!message) return std::nullopt;
    const auto* beat = std::get_if<wire::WorkerBeat>(&*message);
    if (beat == nullptr) return message;
    if (beat->draining && !beat_.draining && logger_ != nullptr) {
      logger_->info("a worker drains", {{"worker", who_.label}});
    }
    beat_ = *beat;
  }
  if (session_ && !session_->is_open()) (void)session_->poll();  // the greeting
  return std::nullopt;
}

void FleetMember::post(const WorkerMessage& message) {
  if (is_open()) session_->post(message);
}

void FleetMember::retire(const std::string& why) {
  if (session_) session_->close(why);
}

void FleetMember::leave() {
  leaving_ = true;
  if (session_) session_->close("the gateway leaves");
}

bool FleetMember::has_left() {
  if (session_) session_->tick();
  return !session_ || session_->is_finished();
}

bool FleetMember::has_room(const Load& more) const {
  return is_open() && load_.pages + more.pages <= hello().pages &&
         load_.sequences + more.sequences <= hello().sequences_max;
}

void FleetMember::take(const Load& load) {
  load_.pages += load.pages;
  load_.sequences += load.sequences;
  load_.tokens += load.tokens;
}

void FleetMember::give_back(const Load& load) {
  BH_CHECK(
      load.pages <= load_.pages && load.sequences <= load_.sequences && load.tokens <= load_.tokens,
      "only what was taken comes back");
  load_.pages -= load.pages;
  load_.sequences -= load.sequences;
  load_.tokens -= load.tokens;
}

}  // namespace bulkhead::serve::roles
