#include "serve/roles/gateway/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "wire/faults.h"

namespace bulkhead::serve::roles {

using wire::Slot;
using wire::WorkerMessage;
using wire::WorkerRole;

namespace {

// How often other threads are told anew.
constexpr base::Nanoseconds kPublishEvery{50'000'000};

struct Word {
  wire::AttemptId attempt;
  FlightEvent event = FlightEvent::kReleased;
};

// Which attempt a worker speaks of, and what it says; nothing for what only a gateway says.
std::optional<Word> word_of(const WorkerMessage& message) {
  return std::visit(
      [](const auto& one) -> std::optional<Word> {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, wire::Admitted>) {
          return Word{one.attempt, FlightEvent::kAdmitted};
        } else if constexpr (std::is_same_v<T, wire::PromptScored>) {
          return Word{one.attempt, FlightEvent::kScores};
        } else if constexpr (std::is_same_v<T, wire::TokenMade>) {
          return Word{one.attempt, FlightEvent::kToken};
        } else if constexpr (std::is_same_v<T, wire::Offered>) {
          return Word{one.attempt, FlightEvent::kOffered};
        } else if constexpr (std::is_same_v<T, wire::Accepted>) {
          return Word{one.attempt, FlightEvent::kAccepted};
        } else if constexpr (std::is_same_v<T, wire::Ended>) {
          switch (one.ending.reason) {
            case wire::FinishReason::kStop:
            case wire::FinishReason::kLength:
              return Word{one.attempt, FlightEvent::kEnded};
            case wire::FinishReason::kError:
              return Word{one.attempt, FlightEvent::kFailed};
            default:
              return std::nullopt;  // those are the gateway's to decide
          }
        } else if constexpr (std::is_same_v<T, wire::Released>) {
          return Word{one.attempt, FlightEvent::kReleased};
        } else {
          return std::nullopt;
        }
      },
      message);
}

// Another worker may do better.
bool may_succeed_elsewhere(const base::Error& error) {
  switch (error.code) {
    case base::ErrorCode::kUnavailable:
    case base::ErrorCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

int32_t pages_for(int64_t tokens, int32_t page_tokens) {
  return static_cast<int32_t>((tokens + page_tokens - 1) / page_tokens);
}

// Stable over restarts of the gateway and of the worker.
uint64_t name_hash(std::string_view label) {
  uint64_t hash = 0;
  for (const char c : label) hash = base::mix64(hash ^ static_cast<uint64_t>(c));
  return hash;
}

size_t report_index(WorkerRole role) { return role == WorkerRole::kPrefill ? 0 : 1; }

}  // namespace

Fleet::Fleet(const FleetOptions& options, const router::Membership& membership,
             transfer::remote::Transport& transport, const base::Clock& clock, base::Logger* logger)
    : options_(options),
      transport_(transport),
      clock_(clock),
      flights_(options.slots),
      affinity_(options.affinity) {
  const auto who = membership.members();
  members_.reserve(who.size());
  for (const router::Member& member : who) {
    members_.emplace_back(member, options.member, clock, logger);
  }
  by_attempt_.reserve(options.slots);
  publish();
}

Slot Fleet::slot_of(const Flight& flight) const {
  return static_cast<Slot>(&flight - flights_.data());
}

wire::AttemptId Fleet::draw_attempt() {
  ++attempts_;
  return {base::random_bits(options_.attempt_seed, 1, attempts_),
          base::random_bits(options_.attempt_seed, 2, attempts_)};
}

// --- admission

std::optional<size_t> Fleet::choose(WorkerRole role, const Flight& flight, int64_t tokens,
                                    const router::WorkerNeed& need) const {
  std::vector<router::WorkerView> views;
  std::vector<size_t> numbers;
  views.reserve(members_.size());
  numbers.reserve(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    const FleetMember& member = members_[i];
    if (member.who().role != role) continue;
    router::WorkerView view;
    view.name = name_hash(member.who().label);
    view.available = member.is_ready();
    view.has_room =
        view.available && member.has_room({pages_for(tokens, member.hello().page_tokens), 1, 0});
    view.failed = std::find(flight.failed.begin(), flight.failed.end(), i) != flight.failed.end();
    view.tokens_in_flight = member.load().tokens;
    view.cached_tokens = affinity_.known_tokens(flight.keys, i);
    views.push_back(view);
    numbers.push_back(i);
  }
  const auto chosen = router::choose_worker(views, need);
  return chosen ? std::optional(numbers[*chosen]) : std::nullopt;
}

bool Fleet::reserve(const wire::SequenceState& state) {
  Flight& flight = flights_[state.slot];
  BH_CHECK(!flight.live, "a slot holds one request");
  BH_CHECK(state.constraint == nullptr, "the front door refuses constraints in this placement");
  if (flight.request != state.id) {
    flight = Flight{};
    flight.request = state.id;
  }
  // A request for one token ends with prefill.
  if (state.max_tokens <= 1) return true;
  const auto chosen = choose(WorkerRole::kDecode, flight, state.tokens_max(), {});
  if (!chosen) return false;
  flight.decode = {};
  flight.decode.member = *chosen;
  flight.decode.load = {pages_for(state.tokens_max(), members_[*chosen].hello().page_tokens), 1,
                        state.tokens_max()};
  flight.decode.reserved = true;
  members_[*chosen].take(flight.decode.load);
  return true;
}

void Fleet::unreserve(Slot slot) {
  FlightPart& part = flights_[slot].decode;
  if (!std::exchange(part.reserved, false)) return;
  if (members_[part.member].is_open()) members_[part.member].give_back(part.load);
}

std::optional<wire::Admission> Fleet::admit(wire::SequenceState& state) {
  Flight& flight = flights_[state.slot];
  const auto prompt = static_cast<int64_t>(state.tokens.size());
  // Asked again in every step until there is room.
  if (!std::exchange(flight.keyed, true)) flight.keys = affinity_.keys(state.cache, state.tokens);
  const auto chosen =
      choose(WorkerRole::kPrefill, flight, prompt, {.tokens = prompt, .session = state.session});
  if (!chosen) return std::nullopt;
  // Between the promise and now the decode worker may have gone.
  if (flight.decode.reserved && !members_[flight.decode.member].is_ready()) return std::nullopt;
  FleetMember& member = members_[*chosen];
  flight.prefill = {};
  flight.prefill.member = *chosen;
  flight.prefill.load = {pages_for(prompt, member.hello().page_tokens), 1, prompt};
  member.take(flight.prefill.load);
  send(flight, state);
  return wire::Admission{};
}

void Fleet::send(Flight& flight, wire::SequenceState& state) {
  flight.live = true;
  flight.attempt = draw_attempt();
  flight.at = {};
  flight.at.has_decode = std::exchange(flight.decode.reserved, false);
  flight.told = flight.rerun = false;
  flight.early.clear();
  flight.scope = state.cache;
  flight.cached_tokens = 0;
  flight.prompt_tokens = static_cast<int32_t>(state.tokens.size());
  flight.tokens_left = state.max_tokens;
  flight.scored = state.scored;
  flight.prefill.held = true;
  flight.decode.held = flight.at.has_decode;
  by_attempt_.emplace(flight.attempt, state.slot);
  const Slot slot = state.slot;
  wire::Submit submit;
  submit.attempt = flight.attempt;
  if (flight.at.has_decode) {
    FleetMember& decode = members_[flight.decode.member];
    submit.decode_address = decode.hello().transfer_address;
    submit.decode_boot = decode.hello().boot_nonce;
    decode.post(wire::Expect{flight.attempt, members_[flight.prefill.member].hello().boot_nonce,
                             flight.prompt_tokens, static_cast<int32_t>(state.tokens_max())});
  }
  submit.state = std::move(state);
  WorkerMessage message(std::move(submit));
  members_[flight.prefill.member].post(message);
  flight.state = std::move(std::get<wire::Submit>(message).state);
  flight.state.slot = slot;
}

void Fleet::flush_cache() {
  affinity_.clear();
  for (FleetMember& member : members_) {
    if (member.who().role == WorkerRole::kPrefill) member.post(wire::FlushCache{});
  }
}

// --- the ends

void Fleet::let_go(FlightPart& part) {
  part.held = false;
  // A member that was lost starts anew with no load.
  if (members_[part.member].is_open()) members_[part.member].give_back(part.load);
}

void Fleet::cancel(Flight& flight, FlightPart& part) {
  if (!part.held || std::exchange(part.cancelled, true)) return;
  part.cancelled_at = clock_.now();
  members_[part.member].post(wire::Cancel{flight.attempt});
}

void Fleet::end_flight(Flight& flight) {
  flight.at.over = true;
  cancel(flight, flight.prefill);
  cancel(flight, flight.decode);
  // Of what decode said too early one word still matters.
  const bool let_go_early = std::any_of(
      flight.early.begin(), flight.early.end(),
      [](const WorkerMessage& message) { return std::holds_alternative<wire::Released>(message); });
  flight.early.clear();
  flight.at.early = false;
  if (let_go_early && flight.decode.held) let_go(flight.decode);
}

void Fleet::conclude(Flight& flight, wire::PoolEvents& events) {
  if (!flight.live || flight.prefill.held || flight.decode.held) return;
  BH_CHECK(flight.at.over, "a flight that nobody holds is over");
  flight.live = false;
  by_attempt_.erase(flight.attempt);
  flight.keys.clear();
  flight.keyed = false;
  wire::SequenceState state = std::exchange(flight.state, {});
  const Slot slot = slot_of(flight);
  if (flight.rerun) {
    events.on_returned(slot, std::move(state));
  } else {
    events.on_released(slot);
  }
}

void Fleet::abort(Slot slot, wire::PoolEvents& events) {
  Flight& flight = flights_[slot];
  if (!flight.live) return;
  flight.rerun = false;
  if (!flight.at.over) end_flight(flight);
  conclude(flight, events);
}

void Fleet::ended(Flight& flight, wire::Ending ending, wire::PoolEvents& events) {
  end_flight(flight);
  events.on_end(slot_of(flight), std::move(ending));
}

void Fleet::fail(Flight& flight, size_t culprit, const base::Error& error,
                 wire::PoolEvents& events) {
  if (flight.at.over) return;
  reports_[report_index(members_[culprit].who().role)].outcome = wire::StepOutcome::kFailed;
  const bool again =
      may_succeed_elsewhere(error) && !flight.told && flight.tries < options_.retries_max;
  if (!again) {
    ended(flight, {wire::FinishReason::kError, wire::TokenId{-1}, error}, events);
    return;
  }
  ++flight.tries;
  flight.failed.push_back(culprit);
  flight.rerun = true;
  end_flight(flight);
}

void Fleet::lose(size_t member, wire::PoolEvents& events) {
  if (members_[member].who().role == WorkerRole::kPrefill) affinity_.forget(member);
  const base::Error error =
      wire::fault(wire::kWorkerLost, "the worker that had this request is gone; try again");
  for (Flight& flight : flights_) {
    if (flight.decode.reserved && flight.decode.member == member) flight.decode.reserved = false;
    if (!flight.live) continue;
    const bool had_prompt = flight.prefill.held && flight.prefill.member == member;
    const bool had_rest = flight.decode.held && flight.decode.member == member;
    if (had_prompt) flight.prefill.held = false;
    if (had_rest) flight.decode.held = false;
    // Once the offer was heard, decode knows whether the handoff came to its end.
    if (had_rest || (had_prompt && !flight.at.offered)) fail(flight, member, error, events);
    if (had_prompt || had_rest) conclude(flight, events);
  }
}

void Fleet::watch_cancellations() {
  const auto now = clock_.now();
  for (const Flight& flight : flights_) {
    if (!flight.live) continue;
    for (const FlightPart* part : {&flight.prefill, &flight.decode}) {
      if (part->held && part->cancelled && now - part->cancelled_at > options_.cancel_max) {
        members_[part->member].retire("the worker does not answer a cancellation");
      }
    }
  }
}

// --- what workers say

void Fleet::poll(wire::PoolEvents& events) {
  transport_.progress();
  bool news = false;
  for (size_t i = 0; i < members_.size(); ++i) {
    FleetMember& member = members_[i];
    auto change = member.tick(transport_);
    news = news || change != FleetMember::Change::kNone;
    while (change != FleetMember::Change::kLost) {
      auto message = member.poll();
      if (!message) break;
      hear(i, *std::move(message), events);
    }
    // It may have closed over what it said.
    if (change == FleetMember::Change::kNone) change = member.tick(transport_);
    if (change == FleetMember::Change::kLost) lose(i, events);
    news = news || change != FleetMember::Change::kNone;
  }
  if (is_complete()) {
    incomplete_since_.reset();
  } else if (!incomplete_since_) {
    incomplete_since_ = clock_.now();
  }
  if (news || clock_.now() - published_at_ >= kPublishEvery) {
    watch_cancellations();
    publish();
  }
}

void Fleet::hear(size_t number, WorkerMessage message, wire::PoolEvents& events) {
  FleetMember& member = members_[number];
  const auto word = word_of(message);
  if (!word) {
    member.retire(fmt::format("a worker does not say {}", name_of(message)));
    return;
  }
  const auto found = by_attempt_.find(word->attempt);
  if (found == by_attempt_.end()) return;  // over and done with
  Flight& flight = flights_[found->second];
  const bool is_prefill = member.who().role == WorkerRole::kPrefill;
  FlightPart& part = is_prefill ? flight.prefill : flight.decode;
  if (!part.held || part.member != number) {
    member.retire("it speaks of a request that it does not have");
    return;
  }
  const Hearing hearing =
      is_prefill ? hear_prefill(flight.at, word->event) : hear_decode(flight.at, word->event);
  switch (hearing) {
    case Hearing::kApply:
      if (is_prefill) {
        apply_prefill(flight, message, events);
      } else {
        apply_decode(flight, message, events);
      }
      conclude(flight, events);
      return;
    case Hearing::kIgnore:
      return;
    case Hearing::kLater:
      if (flight.early.size() > static_cast<size_t>(flight.tokens_left) + 3) {
        member.retire("it says more than its request has");
        return;
      }
      flight.at.early = true;
      flight.early.push_back(std::move(message));
      return;
    case Hearing::kWrong:
      member.retire(fmt::format("a {} makes no sense here", name_of(message)));
      return;
  }
}

void Fleet::apply_prefill(Flight& flight, WorkerMessage& message, wire::PoolEvents& events) {
  const Slot slot = slot_of(flight);
  if (const auto* admitted = std::get_if<wire::Admitted>(&message)) {
    flight.cached_tokens = std::min(admitted->cached_tokens, flight.prompt_tokens);
    events.on_cached(slot, flight.cached_tokens);
  } else if (auto* scored = std::get_if<wire::PromptScored>(&message)) {
    const auto end = scored->event.position + static_cast<int64_t>(scored->event.tokens.size());
    if (flight.state.prompt_logprobs < 0 || scored->event.position != flight.scored ||
        end > flight.prompt_tokens) {
      members_[flight.prefill.member].retire("it scores tokens that are not next in the prompt");
      return;
    }
    flight.scored = static_cast<int32_t>(end);
    flight.told = true;
    scored->event.id = flight.request;
    for (wire::TokenEvent& token : scored->event.tokens) token.id = flight.request;
    events.on_prompt(slot, std::move(scored->event));
  } else if (auto* made = std::get_if<wire::TokenMade>(&message)) {
    if (flight.tokens_left-- <= 0) {
      members_[flight.prefill.member].retire("it says more than its request has");
      return;
    }
    flight.at.token = flight.told = true;
    made->event.id = flight.request;
    events.on_token(slot, std::move(made->event));
  } else if (std::holds_alternative<wire::Offered>(message)) {
    offered(flight, events);
  } else if (auto* end = std::get_if<wire::Ended>(&message)) {
    if (end->ending.reason == wire::FinishReason::kError) {
      const base::Error error = end->ending.error.value_or(base::Error{});
      fail(flight, flight.prefill.member, error, events);
    } else {
      affinity_.computed(flight.scope, flight.keys, flight.prefill.member);
      ended(flight, std::move(end->ending), events);
    }
  } else {
    let_go(flight.prefill);
  }
}

// The prompt is computed: its pages wait for decode, the work is done.
void Fleet::offered(Flight& flight, wire::PoolEvents& events) {
  flight.at.offered = true;
  members_[flight.prefill.member].give_back({0, 0, flight.prefill.load.tokens});
  flight.prefill.load.tokens = 0;
  wire::StepReport& report = reports_[report_index(WorkerRole::kPrefill)];
  report.outcome = std::max(report.outcome, wire::StepOutcome::kCommitted);
  report.sequences += 1;
  report.tokens += flight.prompt_tokens - flight.cached_tokens;
  affinity_.computed(flight.scope, flight.keys, flight.prefill.member);
  flight.state = {};
  events.on_offered(slot_of(flight));
  auto early = std::exchange(flight.early, {});
  flight.at.early = false;
  const size_t decode = flight.decode.member;
  for (WorkerMessage& message : early) {
    if (flight.decode.held) hear(decode, std::move(message), events);
  }
}

void Fleet::apply_decode(Flight& flight, WorkerMessage& message, wire::PoolEvents& events) {
  const Slot slot = slot_of(flight);
  if (std::holds_alternative<wire::Accepted>(message)) {
    flight.at.accepted = true;
    events.on_accepted(slot);
  } else if (auto* made = std::get_if<wire::TokenMade>(&message)) {
    if (flight.tokens_left-- <= 0) {
      members_[flight.decode.member].retire("it says more than its request has");
      return;
    }
    wire::StepReport& report = reports_[report_index(WorkerRole::kDecode)];
    report.outcome = std::max(report.outcome, wire::StepOutcome::kCommitted);
    report.tokens += 1;
    report.sequences += 1;
    made->event.id = flight.request;
    events.on_token(slot, std::move(made->event));
  } else if (auto* end = std::get_if<wire::Ended>(&message)) {
    if (end->ending.reason == wire::FinishReason::kError) {
      const base::Error error = end->ending.error.value_or(base::Error{});
      fail(flight, flight.decode.member, error, events);
    } else {
      ended(flight, std::move(end->ending), events);
    }
  } else {
    let_go(flight.decode);
  }
}

wire::StepReport Fleet::take_report(WorkerRole role) {
  return std::exchange(reports_[report_index(role)], {});
}

// --- the fleet as a whole

bool Fleet::is_complete() const {
  bool prefill = false;
  bool decode = false;
  for (const FleetMember& member : members_) {
    if (!member.is_open()) continue;
    (member.who().role == WorkerRole::kPrefill ? prefill : decode) = true;
  }
  return prefill && decode;
}

int32_t Fleet::context_tokens() const {
  if (!is_complete()) return 0;
  int32_t least = std::numeric_limits<int32_t>::max();
  for (const FleetMember& member : members_) {
    if (member.is_open()) least = std::min(least, member.hello().context_tokens);
  }
  return least;
}

int32_t Fleet::cache_tokens(WorkerRole role) const {
  int64_t sum = 0;
  for (const FleetMember& member : members_) {
    if (member.who().role != role || !member.is_open()) continue;
    sum += int64_t{member.hello().pages} * member.hello().page_tokens;
  }
  return static_cast<int32_t>(std::min<int64_t>(sum, std::numeric_limits<int32_t>::max()));
}

std::optional<base::Error> Fleet::outage() const {
  if (!incomplete_since_ || clock_.now() - *incomplete_since_ < options_.outage_max) {
    return std::nullopt;
  }
  return wire::fault(wire::kWorkerLost,
                     "no prefill or no decode worker is there at the moment; try again");
}

void Fleet::set_context(int32_t tokens) {
  for (FleetMember& member : members_) member.set_context_min(tokens);
}

void Fleet::publish() {
  published_at_ = clock_.now();
  std::vector<MemberStatus> now;
  now.reserve(members_.size());
  for (const FleetMember& member : members_) {
    MemberStatus status;
    status.label = member.who().label;
    status.role = member.who().role;
    status.present = member.is_open();
    status.losses = member.losses();
    if (status.present) {
      const wire::WorkerBeat& beat = member.beat();
      status.draining = beat.draining;
      status.weights = member.hello().weights;
      status.kv = member.hello().kv;
      status.http = member.hello().http_address;
      status.pages = {beat.pages_total, beat.pages_free, beat.pages_cached};
      status.sequences = member.load().sequences;
      status.tokens = member.load().tokens;
      status.writes_refused = beat.writes_refused;
    }
    now.push_back(std::move(status));
  }
  std::lock_guard lock(shown_mutex_);
  shown_ = std::move(now);
}

void Fleet::leave() {
  for (FleetMember& member : members_) member.leave();
}

bool Fleet::has_left() {
  transport_.progress();
  bool all = true;
  for (FleetMember& member : members_) all = member.has_left() && all;
  return all;
}

std::vector<MemberStatus> Fleet::members() const {
  std::lock_guard lock(shown_mutex_);
  return shown_;
}

wire::PageGauges Fleet::pages(WorkerRole role) const {
  std::lock_guard lock(shown_mutex_);
  wire::PageGauges sum;
  for (const MemberStatus& member : shown_) {
    if (member.role != role || !member.present) continue;
    sum.total += member.pages.total;
    sum.free += member.pages.free;
    sum.cached += member.pages.cached;
  }
  return sum;
}

}  // namespace bulkhead::serve::roles
