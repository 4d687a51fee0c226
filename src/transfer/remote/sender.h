// Prefill's side of the handoff with one decode worker: offers pages as they are computed, converts
// and sends those that decode granted a place for, and commits the whole.
//
// Threads: step thread only; nothing blocks. Invariants: every open() comes to exactly one
// next_end(); nothing is sent without a grant; source pages are leased here from the moment they
// are offered until the transfer has ended, and their tags are read again after the last byte left;
// bytes are copied when they are sent, so a transfer that ended reads no page.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kv/page_table.h"
#include "transfer/remote/session.h"
#include "wire/sequence_state.h"

namespace bulkhead::transfer::remote {

// Makes the page that decode stores out of one of prefill's own, of which the first `tokens` slots
// are written. Every byte of `out` is written; slots beyond say nothing of what was there before.
using Convert =
    std::function<void(std::span<const std::byte> page, int32_t tokens, std::span<std::byte> out)>;

struct SenderOptions {
  SessionOptions session;
  base::Nanoseconds grant_wait{20'000'000'000};   // for decode to ask, once the prompt is done
  base::Nanoseconds commit_retry{1'000'000'000};  // a record without an answer is sent again
  int32_t commits_max = 10;
  size_t transfers_max = 1024;
  size_t unclaimed_max = 1024;  // grants for transfers that are not open here yet
  int32_t frames_per_poll = 64;
};

struct SenderCounters {
  uint64_t pages_sent = 0;
  uint64_t bytes_sent = 0;  // of pages
  uint64_t pages_resent = 0;
  uint64_t commits_sent = 0;
  uint64_t revoked = 0;
};

class Sender {
 public:
  // `destination`: the layout of decode's pages.
  Sender(SenderOptions options, kv::PagePool& pages, const kv::PageLayout& destination,
         Convert convert, std::unique_ptr<Connection> connection, const base::Clock& clock);

  // Moves everything on by a bounded amount. Call it in every step.
  void poll();
  // A prompt of `tokens` tokens will be computed here for the decode worker of this session.
  // Errors: kUnavailable without an open session, kResourceExhausted with too many transfers,
  // kInvalidArgument for a transfer that is open already.
  base::Status open(const TransferId& transfer, int32_t tokens);
  // The first `written` tokens of the table are in the cache for good: whole pages may be sent.
  // Nothing happens when the transfer has ended meanwhile; so with finish() and abort().
  void offer(const TransferId& transfer, const kv::PageTable& pages, int32_t written);
  // The prompt is written and its first token is the last of `state`.
  void finish(const TransferId& transfer, const kv::PageTable& pages,
              const wire::SequenceState& state);
  // The owner wants it no more; its end follows.
  void abort(const TransferId& transfer, FaultReport why);

  // The oldest end not told yet.
  std::optional<TransferEnd> next_end();

  size_t open_transfers() const { return outgoing_.size(); }
  // Appends every lease held here, to be held against the pool's own books.
  void add_holders(std::vector<kv::PageRef>& holders) const;
  const SenderCounters& counters() const { return counters_; }
  const Session& session() const { return session_; }
  void close(Fault fault, std::string text);

 private:
  struct Outgoing {
    int32_t tokens = 0;
    std::optional<Grant> grant;
    std::vector<kv::Lease> source;  // of the pages offered so far
    std::vector<Digest> digests;    // of those sent
    // Of those sent, taken with their bytes.
    std::vector<std::optional<kv::integrity::Mark>> stamps;
    std::deque<uint32_t> to_send;  // page indexes
    bool finished = false;
    int32_t first_token = 0;
    std::vector<std::byte> state;
    kv::Label label = 0;  // of the prompt's tenant
    base::Nanoseconds finished_at{0};
    base::Nanoseconds commit_at{0};  // when the record is due
    int32_t commits = 0;
  };
  // The converted page that is being cut into chunks.
  struct Staged {
    bool active = false;
    TransferId transfer;
    uint32_t page_index = 0;
    size_t offset = 0;
    std::vector<std::byte> bytes;
  };
  struct Unclaimed {
    Grant grant;
    base::Nanoseconds since{0};
  };
  using Transfers = std::map<TransferId, Outgoing>;

  void hear(const Message& message);
  void hear_grant(const Grant& grant);
  void hear_resend(const Resend& resend);
  void hear_revoke(const Revoke& revoke);
  bool is_sane(const Grant& grant) const;
  void claim(Transfers::iterator transfer, Grant grant);
  Transfers::iterator find_grant(const GrantId& grant);

  void take_pages(Outgoing& outgoing, const kv::PageTable& pages, size_t count);
  void send_chunks();
  bool stage_next();
  void commit_due();
  void commit(Transfers::iterator transfer);
  bool source_holds(const Outgoing& outgoing);
  void keep_time();
  void beat();

  void give_up(Transfers::iterator transfer, FaultReport why);  // and tell decode
  void end(Transfers::iterator transfer, FaultReport why);
  void lose_all();

  const SenderOptions options_;
  kv::PagePool& pages_;
  const kv::PageLayout destination_;
  const Convert convert_;
  const base::Clock& clock_;
  Session session_;
  Transfers outgoing_;
  std::map<TransferId, Unclaimed> unclaimed_;
  std::deque<TransferEnd> ended_;  // given up before they were granted, newest last
  TransferId last_staged_;         // where the round robin stands
  Staged staged_;
  std::deque<TransferEnd> ends_;
  SenderCounters counters_;
};

}  // namespace bulkhead::transfer::remote
