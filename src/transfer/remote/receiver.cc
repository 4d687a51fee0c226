#include "transfer/remote/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/integrity/stamp.h"
#include "transfer/remote/commit_record.h"

namespace bulkhead::transfer::remote {

Receiver::Receiver(ReceiverOptions options, kv::PagePool& pages,
                   std::unique_ptr<Connection> connection, const base::Clock& clock)
    : options_(std::move(options)),
      pages_(pages),
      clock_(clock),
      session_(options_.session, std::move(connection), clock) {
  BH_CHECK(session_.own().role == Role::kDecode, "decode receives");
}

void Receiver::poll() {
  session_.tick();
  for (int32_t i = 0; i < options_.frames_per_poll; ++i) {
    const auto message = session_.poll();
    if (!message) break;
    hear(*message);
  }
  if (session_.is_closed()) {
    lose_all();
  } else {
    keep_time();
  }
}

base::Status Receiver::grant(GrantRequest& request) {
  if (!session_.is_open()) {
    return base::Error{base::ErrorCode::kUnavailable, "no session with the prefill worker", {}};
  }
  if (incoming_.size() >= options_.grants_max) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       fmt::format("{} transfers are on their way already", incoming_.size()),
                       {}};
  }
  BH_CHECK(request.tokens > 0 && request.pages.covered_tokens() >= request.tokens,
           "pages for every token that is to come");
  const GrantId id = options_.session.draw_id();
  kv::PageTable table = std::move(request.pages);
  Landing landing(pages_, std::move(table), id, request.tokens, session_.own().chunk_bytes);
  Grant message;
  message.grant = id;
  message.transfer = request.transfer;
  message.tokens = request.tokens;
  message.page_bytes = pages_.layout().page_bytes();
  message.lease_ms = static_cast<uint64_t>(options_.lease.count() / 1'000'000);
  message.pages.assign(landing.pages().begin(), landing.pages().end());
  incoming_.emplace(
      id, Incoming{std::move(request), std::move(landing), clock_.now() + options_.lease, 0});
  session_.post(message);
  return {};
}

void Receiver::abort(const TransferId& transfer) {
  const auto arrived = std::find_if(arrivals_.begin(), arrivals_.end(),
                                    [&](const Arrival& a) { return a.transfer == transfer; });
  if (arrived != arrivals_.end()) {
    arrivals_.erase(arrived);
    ends_.push_back({transfer, {Fault::kAborted, "given up by its owner"}});
    return;
  }
  const auto grant = std::find_if(incoming_.begin(), incoming_.end(), [&](const auto& entry) {
    return entry.second.request.transfer == transfer;
  });
  if (grant != incoming_.end()) refuse(grant, {Fault::kAborted, "given up by its owner"});
}

std::optional<Arrival> Receiver::receive() {
  if (arrivals_.empty()) return std::nullopt;
  std::optional<Arrival> out(std::move(arrivals_.front()));
  arrivals_.pop_front();
  return out;
}

std::optional<TransferEnd> Receiver::next_end() {
  if (ends_.empty()) return std::nullopt;
  std::optional<TransferEnd> out(std::move(ends_.front()));
  ends_.pop_front();
  return out;
}

int32_t Receiver::quarantined_pages() const {
  int32_t pages = 0;
  for (const auto& [grant, held] : quarantine_) {
    pages += static_cast<int32_t>(held.pages.pages().size());
  }
  return pages;
}

void Receiver::add_holders(std::vector<kv::PageRef>& holders) const {
  const auto add = [&holders](const kv::PageTable& table) {
    for (const kv::Lease& lease : table.leases()) holders.push_back(lease.ref());
  };
  for (const auto& [grant, incoming] : incoming_) add(incoming.landing.table());
  for (const auto& [grant, held] : quarantine_) add(held.pages);
  for (const Arrival& arrival : arrivals_) add(arrival.handoff.pages);
}

void Receiver::close(Fault fault, std::string text) {
  session_.close(fault, std::move(text));
  lose_all();
}

// --- what prefill says

void Receiver::hear(const Message& message) {
  if (const auto* chunk = std::get_if<Chunk>(&message)) {
    hear_chunk(*chunk);
  } else if (const auto* commit = std::get_if<Commit>(&message)) {
    hear_commit(*commit);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    hear_heartbeat(*heartbeat);
  } else if (const auto* abort = std::get_if<Abort>(&message)) {
    hear_abort(*abort);
  } else if (const auto* ack = std::get_if<RevokeAck>(&message)) {
    quarantine_.erase(ack->grant);
  } else {
    session_.close(Fault::kProtocol,
                   fmt::format("prefill may not say: {}", to_string(type_of(message))));
  }
}

void Receiver::hear_chunk(const Chunk& chunk) {
  const auto grant = incoming_.find(chunk.grant);
  if (grant == incoming_.end()) {
    ++counters_.late;
    return;
  }
  Incoming& incoming = grant->second;
  incoming.deadline = clock_.now() + options_.lease;
  switch (incoming.landing.land(chunk)) {
    case Landed::kWritten:
      ++counters_.chunks_written;
      counters_.bytes_written += chunk.payload.size();
      break;
    case Landed::kOutOfRange:
      ++counters_.out_of_range;
      break;
    case Landed::kStaleTag:
      ++counters_.stale_tag;
      break;
    case Landed::kDuplicate:
      ++counters_.duplicate;
      break;
  }
}

void Receiver::hear_commit(const Commit& commit) {
  const auto grant = incoming_.find(commit.grant);
  if (grant == incoming_.end()) {
    if (was_accepted(commit.grant)) {
      session_.post(Accept{commit.grant});
    } else {
      session_.post(Revoke{commit.grant, {Fault::kRevoked, "no such grant"}});
    }
    return;
  }
  Incoming& incoming = grant->second;
  incoming.deadline = clock_.now() + options_.lease;
  if (!incoming.landing.is_whole() && incoming.resends < options_.resends_max) {
    ++incoming.resends;
    ++counters_.resends_asked;
    session_.post(Resend{commit.grant, incoming.landing.missing_pages()});
    return;
  }
  if (auto fault = accept(incoming, commit)) {
    ++counters_.commits_refused;
    refuse(grant, *std::move(fault));
    return;
  }
  ++counters_.commits_accepted;
  incoming_.erase(grant);
  remember_accepted(commit.grant);
  session_.post(Accept{commit.grant});
}

std::optional<FaultReport> Receiver::accept(Incoming& incoming, const Commit& commit) {
  if (!incoming.landing.is_whole()) {
    return FaultReport{Fault::kMissing, fmt::format("{} pages did not arrive whole",
                                                    incoming.landing.missing_pages().size())};
  }
  GrantRequest& request = incoming.request;
  if (auto bad = check_record(commit, request.transfer, request.tokens, pages_.layout(),
                              incoming.landing)) {
    pages_.integrity().found({.kind = kv::integrity::Kind::kDigest,
                              .phase = kv::integrity::Phase::kCommit,
                              .reader = request.id});
    return bad;
  }
  wire::ByteReader reader(commit.state);
  auto decoded = wire::decode_sequence(reader, options_.bounds);
  if (!decoded.ok()) return FaultReport{Fault::kIntegrity, decoded.error().message};
  wire::SequenceState& state = decoded->state;
  const bool fits = reader.finished() && state.written == request.tokens &&
                    state.tokens.size() == static_cast<size_t>(request.tokens) + 1 &&
                    state.tokens.back() == commit.first_token &&
                    state.tokens_max() <= request.tokens_max &&
                    decoded->constrained == (request.constraint != nullptr);
  if (!fits) return FaultReport{Fault::kIntegrity, "the state is not that of the request"};
  state.id = request.id;
  state.slot = request.slot;
  state.constraint = std::move(request.constraint);
  incoming.landing.table().relabel(kv::label_of(state.cache.tenant));
  if (auto bad = check_stamps(incoming, commit, state)) return bad;
  arrivals_.push_back(
      {request.transfer, {std::move(state), std::move(incoming.landing).take_table()}});
  return std::nullopt;
}

std::optional<FaultReport> Receiver::check_stamps(Incoming& incoming, const Commit& commit,
                                                  const wire::SequenceState& state) {
  kv::integrity::Tracker& tracker = pages_.integrity();
  kv::PageTable& table = incoming.landing.table();
  if (!tracker.is_on()) return std::nullopt;
  if (!session_.peer().stamps) {
    kv::integrity::stamp_pages(tracker, table, state.written_tokens(), 0);
    return std::nullopt;
  }
  // Where one is absent the page has none, which is as wrong as another page's.
  for (size_t i = 0; i < commit.pages.size(); ++i) {
    const kv::Lease& lease = table.leases()[i];
    tracker.note(lease.page(), kv::integrity::Transition::kFilled, lease.tag());
    if (commit.pages[i].has_stamp) tracker.set_stamp(lease.page(), commit.pages[i].stamp);
  }
  const auto foreign = kv::integrity::find_foreign_page(tracker, table, state.written_tokens());
  if (!foreign) return std::nullopt;
  kv::integrity::tell_foreign_page(tracker, table, *foreign, kv::integrity::Phase::kCommit,
                                   state.id);
  if (tracker.mode() != kv::integrity::Mode::kAbort) return std::nullopt;
  return FaultReport{Fault::kIntegrity,
                     fmt::format("page {} holds another text than the prompt's", *foreign)};
}

void Receiver::hear_heartbeat(const Heartbeat& heartbeat) {
  for (const GrantId& id : heartbeat.grants) {
    if (const auto grant = incoming_.find(id); grant != incoming_.end()) {
      grant->second.deadline = clock_.now() + options_.lease;
    } else if (was_accepted(id)) {
      session_.post(Accept{id});
    } else if (!quarantine_.contains(id)) {  // those are told anyway, in keep_time()
      session_.post(Revoke{id, {Fault::kRevoked, "no such grant"}});
    }
  }
}

void Receiver::hear_abort(const Abort& abort) {
  quarantine_.erase(abort.grant);
  const auto grant = incoming_.find(abort.grant);
  if (grant == incoming_.end()) return;
  // Prefill says itself that it has stopped, so the pages are free at once.
  end(grant->second.request, abort.why);
  incoming_.erase(grant);
}

// --- ends

void Receiver::remember_accepted(const GrantId& grant) {
  accepted_.push_back(grant);
  if (accepted_.size() > options_.accepted_kept) accepted_.pop_front();
}

bool Receiver::was_accepted(const GrantId& grant) const {
  return std::find(accepted_.rbegin(), accepted_.rend(), grant) != accepted_.rend();
}

// From here on the fence refuses what is written under the grant.
void Receiver::refuse(Grants::iterator grant, FaultReport why) {
  session_.post(Revoke{grant->first, why});
  end(grant->second.request, why);
  quarantine_.emplace(grant->first,
                      Quarantined{std::move(grant->second.landing).take_table(), std::move(why)});
  incoming_.erase(grant);
}

void Receiver::end(const GrantRequest& request, FaultReport why) {
  ends_.push_back({request.transfer, std::move(why)});
}

void Receiver::keep_time() {
  const auto now = clock_.now();
  for (auto grant = incoming_.begin(); grant != incoming_.end();) {
    const auto next = std::next(grant);
    if (now >= grant->second.deadline) {
      ++counters_.leases_expired;
      refuse(grant,
             {Fault::kLeaseExpired, fmt::format("nothing was heard of the transfer for {:.1f} s",
                                                base::to_seconds(options_.lease))});
    }
    grant = next;
  }
  if (!session_.heartbeat_due()) return;
  session_.post(Heartbeat{});
  // A revocation or its answer may have been lost.
  for (const auto& [grant, held] : quarantine_) session_.post(Revoke{grant, held.why});
}

// Nothing of a closed session is ever written, so nothing has to be waited for.
void Receiver::lose_all() {
  for (const auto& [grant, incoming] : incoming_) end(incoming.request, session_.why_closed());
  incoming_.clear();
  quarantine_.clear();
}

}  // namespace bulkhead::transfer::remote
