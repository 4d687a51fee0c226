// Decode's side of the handoff with one prefill worker: grants pages, fences what is written into
// them, and accepts or refuses the whole.
//
// Threads: step thread only; nothing blocks. Invariants: every grant() comes to exactly one
// receive() or one next_end(); bytes are written only into pages of an open grant of this session;
// pages of a grant that ended badly stay in quarantine until prefill says that it has stopped
// writing or until the session is over, never until a time; after the session closed nothing is
// held.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "transfer/link.h"
#include "transfer/remote/landing.h"
#include "transfer/remote/session.h"
#include "wire/sequence_codec.h"

namespace bulkhead::transfer::remote {

struct ReceiverOptions {
  SessionOptions session;
  wire::SequenceBounds bounds;
  base::Nanoseconds lease{20'000'000'000};  // of a grant of which nothing is heard
  int32_t resends_max = 3;                  // times that missing pages are asked for
  size_t grants_max = 1024;
  size_t accepted_kept = 1024;  // grants remembered, to answer a record that comes twice
  int32_t frames_per_poll = 64;
};

// What decode prepared at admission, and wants filled.
struct GrantRequest {
  TransferId transfer;
  kv::PageTable pages;  // covers `tokens`
  int32_t tokens = 0;   // of the prompt
  int64_t tokens_max = 0;
  // As this process knows the request.
  wire::RequestId id = 0;
  wire::Slot slot = 0;
  std::unique_ptr<wire::ConstraintState> constraint;  // fresh; null where there is none
};

struct Arrival {
  TransferId transfer;
  Handoff handoff;
};

struct ReceiverCounters {
  uint64_t chunks_written = 0;
  uint64_t bytes_written = 0;
  // Writes refused, by reason.
  uint64_t late = 0;  // no such grant, or no longer
  uint64_t stale_tag = 0;
  uint64_t out_of_range = 0;
  uint64_t duplicate = 0;
  uint64_t commits_accepted = 0;
  uint64_t commits_refused = 0;
  uint64_t resends_asked = 0;
  uint64_t leases_expired = 0;
};

class Receiver {
 public:
  Receiver(ReceiverOptions options, kv::PagePool& pages, std::unique_ptr<Connection> connection,
           const base::Clock& clock);

  // Moves everything on by a bounded amount. Call it in every step.
  void poll();
  // Asks prefill to fill the pages. Errors, with the request left as it is: kUnavailable without an
  // open session, kResourceExhausted with too many grants.
  base::Status grant(GrantRequest& request);
  // The owner wants it no more; its end follows.
  void abort(const TransferId& transfer);

  // The oldest transfer that is whole.
  std::optional<Arrival> receive();
  // The oldest that ended otherwise.
  std::optional<TransferEnd> next_end();

  // Pages nobody may use yet because prefill may still write to them.
  int32_t quarantined_pages() const;
  size_t open_grants() const { return incoming_.size(); }
  // Appends every lease held here, to be held against the pool's own books.
  void add_holders(std::vector<kv::PageRef>& holders) const;
  const ReceiverCounters& counters() const { return counters_; }
  const Session& session() const { return session_; }
  void close(Fault fault, std::string text);

 private:
  struct Incoming {
    GrantRequest request;  // its pages are in `landing`
    Landing landing;
    base::Nanoseconds deadline{0};
    int32_t resends = 0;
  };
  struct Quarantined {
    kv::PageTable pages;
    FaultReport why;
  };
  using Grants = std::map<GrantId, Incoming>;

  void hear(const Message& message);
  void hear_chunk(const Chunk& chunk);
  void hear_commit(const Commit& commit);
  void hear_heartbeat(const Heartbeat& heartbeat);
  void hear_abort(const Abort& abort);
  std::optional<FaultReport> accept(Incoming& incoming, const Commit& commit);
  // Whether the pages hold the text of the state, by the stamps that came with them.
  std::optional<FaultReport> check_stamps(Incoming& incoming, const Commit& commit,
                                          const wire::SequenceState& state);
  void remember_accepted(const GrantId& grant);
  bool was_accepted(const GrantId& grant) const;
  void refuse(Grants::iterator grant, FaultReport why);
  void end(const GrantRequest& request, FaultReport why);
  void keep_time();
  void lose_all();

  const ReceiverOptions options_;
  kv::PagePool& pages_;
  const base::Clock& clock_;
  Session session_;
  Grants incoming_;
  std::map<GrantId, Quarantined> quarantine_;
  std::deque<GrantId> accepted_;  // newest last
  std::deque<Arrival> arrivals_;
  std::deque<TransferEnd> ends_;
  ReceiverCounters counters_;
};

}  // namespace bulkhead::transfer::remote
