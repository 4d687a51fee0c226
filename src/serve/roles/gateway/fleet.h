// The two pools of a gateway: workers elsewhere, behind the ports that pools in this process have.
//
// Chooses a decode and a prefill worker for each request, tells both, and turns what they say into
// the events of wire/pools.h. The gateway holds no pages: what it counts is what it gave out.
//
// Threads: step thread only, except pages() and members(). Invariants: everything a worker says is
// checked against the state of the attempt before anything of it is believed; a worker that breaks
// a rule, falls silent or does not answer a cancellation is retired, and everything it had ends or
// runs again elsewhere; a request runs again only when nothing of it was told, at most retries_max
// times, from its prompt, under a new attempt; on_released() or on_returned() comes when both
// workers have let go or are gone.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "router/prefix_affinity.h"
#include "router/worker_choice.h"
#include "serve/roles/gateway/fleet_member.h"
#include "serve/roles/gateway/flight.h"
#include "wire/pools.h"

namespace bulkhead::serve::roles {

struct FleetOptions {
  MemberOptions member;
  size_t slots = 0;  // requests that the router may have at once
  int32_t retries_max = 2;
  base::Nanoseconds cancel_max{60'000'000'000};  // for the answer to a cancellation
  router::PrefixAffinityOptions affinity;
  uint64_t attempt_seed = 0;                    // drawn at start
  base::Nanoseconds outage_max{4'000'000'000};  // how long requests wait for a role without anybody
};

// A worker for people: of its addresses only the one that is for them.
struct MemberStatus {
  std::string label;
  wire::WorkerRole role = wire::WorkerRole::kPrefill;
  bool present = false;
  bool draining = false;
  std::string weights;
  std::string kv;
  std::string http;  // as its hello says
  wire::PageGauges pages;
  uint32_t sequences = 0;  // given to it
  int64_t tokens = 0;      // estimated, in flight
  uint64_t losses = 0;
  uint64_t writes_refused = 0;  // since it started
};

class Fleet {
 public:
  Fleet(const FleetOptions& options, const router::Membership& membership,
        transfer::remote::Transport& transport, const base::Clock& clock, base::Logger* logger);

  // What wire::DecodePort and wire::PrefillPort say (fleet_ports.h).
  bool reserve(const wire::SequenceState& state);
  void unreserve(wire::Slot slot);
  std::optional<wire::Admission> admit(wire::SequenceState& state);
  void abort(wire::Slot slot, wire::PoolEvents& events);
  void flush_cache();
  // Hears what there is to hear and keeps time.
  void poll(wire::PoolEvents& events);
  // What the workers of a role did since the last call.
  wire::StepReport take_report(wire::WorkerRole role);

  // There is somebody to give requests to.
  bool is_complete() const;
  // The context that every worker present can take; 0 without a pair.
  int32_t context_tokens() const;
  // Of all workers of a role that are present.
  int32_t cache_tokens(wire::WorkerRole role) const;
  // Why requests that wait had better not: a role has had nobody for outage_max.
  std::optional<base::Error> outage() const;
  // From now on a worker that takes less is refused.
  void set_context(int32_t tokens);
  // Takes leave of all workers; whether the last words are out. Ask until they are.
  void leave();
  bool has_left();
  // Attempts that somebody holds.
  size_t flights() const { return by_attempt_.size(); }

  const router::PrefixAffinity& affinity() const { return affinity_; }

  // Any thread.
  wire::PageGauges pages(wire::WorkerRole role) const;
  std::vector<MemberStatus> members() const;

 private:
  std::optional<size_t> choose(wire::WorkerRole role, const Flight& flight, int64_t tokens,
                               const router::WorkerNeed& need) const;
  void send(Flight& flight, wire::SequenceState& state);
  void hear(size_t member, wire::WorkerMessage message, wire::PoolEvents& events);
  void apply_prefill(Flight& flight, wire::WorkerMessage& message, wire::PoolEvents& events);
  void apply_decode(Flight& flight, wire::WorkerMessage& message, wire::PoolEvents& events);
  void offered(Flight& flight, wire::PoolEvents& events);
  void ended(Flight& flight, wire::Ending ending, wire::PoolEvents& events);
  void fail(Flight& flight, size_t culprit, const base::Error& error, wire::PoolEvents& events);
  void end_flight(Flight& flight);
  void cancel(Flight& flight, FlightPart& part);
  void let_go(FlightPart& part);
  void conclude(Flight& flight, wire::PoolEvents& events);
  void lose(size_t member, wire::PoolEvents& events);
  void watch_cancellations();
  void publish();
  wire::Slot slot_of(const Flight& flight) const;
  wire::AttemptId draw_attempt();

  const FleetOptions options_;
  transfer::remote::Transport& transport_;
  const base::Clock& clock_;
  std::vector<FleetMember> members_;
  std::vector<Flight> flights_;  // by slot
  std::unordered_map<wire::AttemptId, wire::Slot, wire::AttemptHash> by_attempt_;
  router::PrefixAffinity affinity_;
  uint64_t attempts_ = 0;
  std::array<wire::StepReport, 2> reports_;  // prefill, decode
  base::Nanoseconds published_at_{-1'000'000'000};
  std::optional<base::Nanoseconds> incomplete_since_;

  mutable std::mutex shown_mutex_;
  std::vector<MemberStatus> shown_;
};

}  // namespace bulkhead::serve::roles
