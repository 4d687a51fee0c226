#include "transfer/remote/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transfer/remote/commit_record.h"
#include "transfer/remote/digest.h"
#include "wire/sequence_codec.h"

namespace bulkhead::transfer::remote {
namespace {

SenderOptions saying_of_stamps(SenderOptions options, const kv::PagePool& pages) {
  options.session.identity.stamps = pages.integrity().is_on();
  return options;
}

}  // namespace

Sender::Sender(SenderOptions options, kv::PagePool& pages, const kv::PageLayout& destination,
               Convert convert, std::unique_ptr<Connection> connection, const base::Clock& clock)
    : options_(saying_of_stamps(std::move(options), pages)),
      pages_(pages),
      destination_(destination),
      convert_(std::move(convert)),
      clock_(clock),
      session_(options_.session, std::move(connection), clock) {
  BH_CHECK(session_.own().role == Role::kPrefill, "prefill sends");
  BH_CHECK(pages.layout().page_tokens == destination.page_tokens, "pages of as many tokens");
  staged_.bytes.resize(destination.page_bytes());
}

void Sender::poll() {
  session_.tick();
  for (int32_t i = 0; i < options_.frames_per_poll; ++i) {
    const auto message = session_.poll();
    if (!message) break;
    hear(*message);
  }
  if (!session_.is_closed()) {
    send_chunks();
    commit_due();
    keep_time();
  }
  if (session_.is_closed()) lose_all();
}

// --- what prefill's pool says

base::Status Sender::open(const TransferId& transfer, int32_t tokens) {
  BH_CHECK(tokens > 0, "a prompt of at least one token");
  if (!session_.is_open()) {
    return base::Error{base::ErrorCode::kUnavailable, "no session with the decode worker", {}};
  }
  if (outgoing_.size() >= options_.transfers_max) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       fmt::format("{} transfers are open already", outgoing_.size()),
                       {}};
  }
  const auto [entry, added] = outgoing_.try_emplace(transfer);
  if (!added) return base::invalid_argument("transfer", "this transfer is open already");
  entry->second.tokens = tokens;
  if (const auto waiting = unclaimed_.find(transfer); waiting != unclaimed_.end()) {
    Grant grant = std::move(waiting->second.grant);
    unclaimed_.erase(waiting);
    claim(entry, std::move(grant));
  }
  return {};
}

void Sender::offer(const TransferId& transfer, const kv::PageTable& pages, int32_t written) {
  const auto entry = outgoing_.find(transfer);
  if (entry == outgoing_.end()) return;
  BH_CHECK(written <= entry->second.tokens && !entry->second.finished, "what is left to offer");
  take_pages(entry->second, pages, static_cast<size_t>(written / destination_.page_tokens));
}

void Sender::finish(const TransferId& transfer, const kv::PageTable& pages,
                    const wire::SequenceState& state) {
  const auto entry = outgoing_.find(transfer);
  if (entry == outgoing_.end()) return;
  Outgoing& outgoing = entry->second;
  BH_CHECK(state.written == outgoing.tokens && !outgoing.finished &&
               state.tokens.size() == static_cast<size_t>(state.written) + 1,
           "the prompt is written and has its first token");
  take_pages(outgoing, pages, static_cast<size_t>(pages_.pages_for(outgoing.tokens)));
  outgoing.finished = true;
  outgoing.finished_at = outgoing.commit_at = clock_.now();
  outgoing.first_token = state.tokens.back();
  outgoing.label = kv::label_of(state.cache.tenant);
  wire::ByteWriter writer(outgoing.state);
  wire::encode_sequence(state, writer);
}

void Sender::take_pages(Outgoing& outgoing, const kv::PageTable& pages, size_t count) {
  BH_CHECK(count <= pages.leases().size(), "the table has the pages that are offered");
  outgoing.source.reserve(static_cast<size_t>(pages_.pages_for(outgoing.tokens)));
  for (size_t i = outgoing.source.size(); i < count; ++i) {
    outgoing.source.push_back(pages.leases()[i].share());
    outgoing.digests.emplace_back();
    outgoing.stamps.emplace_back();
    outgoing.to_send.push_back(static_cast<uint32_t>(i));
  }
}

void Sender::abort(const TransferId& transfer, FaultReport why) {
  const auto entry = outgoing_.find(transfer);
  if (entry != outgoing_.end()) give_up(entry, std::move(why));
}

std::optional<TransferEnd> Sender::next_end() {
  if (ends_.empty()) return std::nullopt;
  std::optional<TransferEnd> out(std::move(ends_.front()));
  ends_.pop_front();
  return out;
}

void Sender::add_holders(std::vector<kv::PageRef>& holders) const {
  for (const auto& [transfer, outgoing] : outgoing_) {
    for (const kv::Lease& lease : outgoing.source) holders.push_back(lease.ref());
  }
}

void Sender::close(Fault fault, std::string text) {
  session_.close(fault, std::move(text));
  lose_all();
}

// --- what decode says

void Sender::hear(const Message& message) {
  if (const auto* grant = std::get_if<Grant>(&message)) {
    hear_grant(*grant);
  } else if (const auto* accept = std::get_if<Accept>(&message)) {
    if (const auto entry = find_grant(accept->grant); entry != outgoing_.end()) {
      end(entry, {});
    }
  } else if (const auto* resend = std::get_if<Resend>(&message)) {
    hear_resend(*resend);
  } else if (const auto* revoke = std::get_if<Revoke>(&message)) {
    hear_revoke(*revoke);
  } else if (!std::holds_alternative<Heartbeat>(message)) {
    session_.close(Fault::kProtocol,
                   fmt::format("decode may not say: {}", to_string(type_of(message))));
  }
}

// Every page of the transfer, in order, in the layout that was agreed.
bool Sender::is_sane(const Grant& grant) const {
  const int32_t page_tokens = destination_.page_tokens;
  if (grant.tokens <= 0 || grant.page_bytes != destination_.page_bytes() ||
      grant.pages.size() != static_cast<size_t>(pages_.pages_for(grant.tokens))) {
    return false;
  }
  int32_t begin = 0;
  for (const GrantPage& page : grant.pages) {
    const int32_t count = std::min(page_tokens, grant.tokens - begin);
    if (page.token_begin != begin || page.token_count != count || page.ref.page < 0) return false;
    begin += count;
  }
  return true;
}

void Sender::hear_grant(const Grant& grant) {
  if (!is_sane(grant)) {
    session_.close(Fault::kProtocol, "a grant that names no pages of this layout");
    return;
  }
  const auto entry = outgoing_.find(grant.transfer);
  const auto over = std::find_if(ended_.begin(), ended_.end(), [&](const TransferEnd& end) {
    return end.transfer == grant.transfer;
  });
  if (entry != outgoing_.end()) {
    claim(entry, grant);
  } else if (over != ended_.end()) {
    session_.post(Abort{grant.transfer, grant.grant, over->why});
  } else if (unclaimed_.size() < options_.unclaimed_max) {
    const auto [waiting, added] =
        unclaimed_.try_emplace(grant.transfer, Unclaimed{grant, clock_.now()});
    if (!added) {
      session_.post(Abort{grant.transfer, grant.grant, {Fault::kRevoked, "granted twice"}});
    }
  } else {
    session_.post(
        Abort{grant.transfer, grant.grant, {Fault::kOverloaded, "too many grants wait here"}});
  }
}

void Sender::claim(Transfers::iterator transfer, Grant grant) {
  Outgoing& outgoing = transfer->second;
  if (outgoing.grant) {
    session_.post(Abort{grant.transfer, grant.grant, {Fault::kRevoked, "granted twice"}});
    return;
  }
  const int32_t granted = grant.tokens;
  outgoing.grant = std::move(grant);
  if (granted != outgoing.tokens) {
    give_up(transfer, {Fault::kIntegrity, fmt::format("decode granted {} tokens, the prompt has {}",
                                                      granted, outgoing.tokens)});
  }
}

void Sender::hear_resend(const Resend& resend) {
  const auto entry = find_grant(resend.grant);
  if (entry == outgoing_.end()) return;
  Outgoing& outgoing = entry->second;
  for (const uint32_t index : resend.page_indexes) {
    // A page may be asked for while it still waits, or by a peer that makes things up.
    if (index >= outgoing.source.size() || outgoing.to_send.size() >= outgoing.source.size()) {
      continue;
    }
    outgoing.to_send.push_back(index);
    ++counters_.pages_resent;
  }
  outgoing.commit_at = clock_.now();
}

void Sender::hear_revoke(const Revoke& revoke) {
  // True whether or not there was such a grant: nothing more is written under it. Chunks of it that
  // were posted before are in front of this answer.
  session_.post(RevokeAck{revoke.grant});
  std::erase_if(unclaimed_,
                [&](const auto& waiting) { return waiting.second.grant.grant == revoke.grant; });
  const auto entry = find_grant(revoke.grant);
  if (entry == outgoing_.end()) return;
  ++counters_.revoked;
  end(entry, revoke.why);
}

Sender::Transfers::iterator Sender::find_grant(const GrantId& grant) {
  return std::find_if(outgoing_.begin(), outgoing_.end(), [&](const auto& entry) {
    return entry.second.grant && entry.second.grant->grant == grant;
  });
}

// --- sending

void Sender::send_chunks() {
  const size_t chunk_bytes = session_.own().chunk_bytes;
  for (int32_t i = 0; i < options_.frames_per_poll && session_.can_post_chunk(); ++i) {
    if (!staged_.active && !stage_next()) return;
    const Grant& grant = *outgoing_.at(staged_.transfer).grant;
    Chunk chunk;
    chunk.grant = grant.grant;
    chunk.page_index = staged_.page_index;
    chunk.tag = grant.pages[staged_.page_index].ref.tag;
    chunk.offset = staged_.offset;
    chunk.payload = std::span(staged_.bytes).subspan(staged_.offset);
    chunk.payload = chunk.payload.first(std::min(chunk_bytes, chunk.payload.size()));
    session_.post(chunk);
    counters_.bytes_sent += chunk.payload.size();
    staged_.offset += chunk.payload.size();
    if (staged_.offset == staged_.bytes.size()) {
      staged_.active = false;
      ++counters_.pages_sent;
    }
  }
}

// One page of each transfer in turn, so that a short prompt does not wait for a long one.
bool Sender::stage_next() {
  const auto can_go = [](const auto& entry) {
    return entry.second.grant && !entry.second.to_send.empty();
  };
  const auto after = outgoing_.upper_bound(last_staged_);
  auto next = std::find_if(after, outgoing_.end(), can_go);
  if (next == outgoing_.end()) next = std::find_if(outgoing_.begin(), after, can_go);
  if (next == outgoing_.end() || !can_go(*next)) return false;

  Outgoing& outgoing = next->second;
  const uint32_t index = outgoing.to_send.front();
  outgoing.to_send.pop_front();
  staged_.active = true;
  staged_.transfer = last_staged_ = next->first;
  staged_.page_index = index;
  staged_.offset = 0;
  const size_t page_bytes = pages_.layout().page_bytes();
  const auto page = static_cast<size_t>(outgoing.source[index].page());
  const GrantPage& granted = outgoing.grant->pages[index];
  convert_({pages_.view().arena + page * page_bytes, page_bytes}, granted.token_count,
           staged_.bytes);
  outgoing.stamps[index] = pages_.integrity().stamp(outgoing.source[index].page());
  outgoing.digests[index] = page_digest(outgoing.grant->grant, granted, staged_.bytes);
  return true;
}

void Sender::commit_due() {
  const auto now = clock_.now();
  for (auto entry = outgoing_.begin(); entry != outgoing_.end();) {
    const auto next = std::next(entry);
    const Outgoing& outgoing = entry->second;
    const bool sent = outgoing.finished && outgoing.grant && outgoing.to_send.empty() &&
                      !(staged_.active && staged_.transfer == entry->first);
    if (sent && now >= outgoing.commit_at) commit(entry);
    entry = next;
  }
}

// After the last byte: the pages that were read still are those that were offered.
bool Sender::source_holds(const Outgoing& outgoing) {
  kv::integrity::Tracker& tracker = pages_.integrity();
  if (tracker.is_on()) {
    std::vector<kv::PageId> ids;
    ids.reserve(outgoing.source.size());
    for (const kv::Lease& lease : outgoing.source) ids.push_back(lease.page());
    const kv::integrity::Reading reading{ids, outgoing.source, outgoing.label, 0};
    uint8_t bad = 0;
    tracker.check(std::span(&reading, 1), kv::integrity::Phase::kSource, std::span(&bad, 1));
    if (bad != 0 && tracker.mode() == kv::integrity::Mode::kAbort) return false;
  }
  return std::all_of(outgoing.source.begin(), outgoing.source.end(), [this](const auto& lease) {
    return pages_.tags()[static_cast<size_t>(lease.page())] == lease.tag();
  });
}

void Sender::commit(Transfers::iterator transfer) {
  Outgoing& outgoing = transfer->second;
  if (outgoing.commits >= options_.commits_max) {
    give_up(transfer, {Fault::kPeerLost, "decode does not answer the record"});
    return;
  }
  if (!source_holds(outgoing)) {
    give_up(transfer, {Fault::kIntegrity, "a source page changed its life while it was sent"});
    return;
  }
  Commit record;
  record.grant = outgoing.grant->grant;
  record.transfer = transfer->first;
  record.tokens = outgoing.tokens;
  record.layout = destination_.id();
  record.page_bytes = destination_.page_bytes();
  record.layer_bytes = layer_manifest(destination_);
  record.pages.reserve(outgoing.source.size());
  for (size_t i = 0; i < outgoing.source.size(); ++i) {
    const auto& stamp = outgoing.stamps[i];
    record.pages.push_back({outgoing.grant->pages[i], true, outgoing.digests[i], stamp.has_value(),
                            stamp.value_or(kv::integrity::Mark{})});
  }
  record.first_token = outgoing.first_token;
  record.state = outgoing.state;
  session_.post(record);
  ++counters_.commits_sent;
  ++outgoing.commits;
  outgoing.commit_at = clock_.now() + options_.commit_retry;
}

// --- time

void Sender::keep_time() {
  const auto now = clock_.now();
  for (auto entry = outgoing_.begin(); entry != outgoing_.end();) {
    const auto next = std::next(entry);
    const Outgoing& outgoing = entry->second;
    if (!outgoing.grant && outgoing.finished && now - outgoing.finished_at >= options_.grant_wait) {
      give_up(entry, {Fault::kNoGrant, "decode never asked for the pages"});
    }
    entry = next;
  }
  for (auto waiting = unclaimed_.begin(); waiting != unclaimed_.end();) {
    const auto next = std::next(waiting);
    if (now - waiting->second.since >= options_.grant_wait) {
      const Grant& grant = waiting->second.grant;
      session_.post(
          Abort{grant.transfer, grant.grant, {Fault::kAborted, "no such prompt came to prefill"}});
      unclaimed_.erase(waiting);
    }
    waiting = next;
  }
  if (session_.heartbeat_due()) beat();
}

void Sender::beat() {
  Heartbeat heartbeat;
  for (const auto& [transfer, outgoing] : outgoing_) {
    if (!outgoing.grant) continue;
    if (heartbeat.grants.size() == kHeartbeatGrantsMax) {
      session_.post(heartbeat);
      heartbeat.grants.clear();
    }
    heartbeat.grants.push_back(outgoing.grant->grant);
  }
  for (const auto& [transfer, waiting] : unclaimed_) {
    if (heartbeat.grants.size() == kHeartbeatGrantsMax) break;
    heartbeat.grants.push_back(waiting.grant.grant);
  }
  session_.post(heartbeat);
}

// --- ends

void Sender::give_up(Transfers::iterator transfer, FaultReport why) {
  if (transfer->second.grant) {
    session_.post(Abort{transfer->first, transfer->second.grant->grant, why});
  } else {
    // Its grant may be on the way.
    ended_.push_back({transfer->first, why});
    if (ended_.size() > options_.unclaimed_max) ended_.pop_front();
  }
  end(transfer, std::move(why));
}

void Sender::end(Transfers::iterator transfer, FaultReport why) {
  if (staged_.active && staged_.transfer == transfer->first) staged_.active = false;
  ends_.push_back({transfer->first, std::move(why)});
  outgoing_.erase(transfer);
}

void Sender::lose_all() {
  while (!outgoing_.empty()) end(outgoing_.begin(), session_.why_closed());
  unclaimed_.clear();
}

}  // namespace bulkhead::transfer::remote
