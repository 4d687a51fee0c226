// One worker as the gateway knows it: where it is, whether it is there, and what was given to it.
//
// Threads: step thread only; nothing blocks. Invariants: a member that is not ready is given
// nothing; the load is what this gateway gave and has not heard the end of, so it never depends on
// what a worker claims to have left; a worker that comes back after a loss starts with no load.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "router/membership.h"
#include "serve/roles/worker_session.h"

namespace bulkhead::serve::roles {

struct MemberOptions {
  WorkerSessionOptions session;
  base::Nanoseconds reconnect{500'000'000};        // after a loss
  base::Nanoseconds after_refusal{5'000'000'000};  // somebody has to change something first
  int32_t context_tokens_min = 0;                  // a worker that takes less is of no use here
};

// What one attempt takes of a worker.
struct Load {
  int32_t pages = 0;
  uint32_t sequences = 0;
  int64_t tokens = 0;  // of work
};

class FleetMember {
 public:
  enum class Change { kNone, kJoined, kLost };

  FleetMember(router::Member who, const MemberOptions& options, const base::Clock& clock,
              base::Logger* logger);

  // Connects, keeps time, and tells what became of the worker since the last call.
  Change tick(transfer::remote::Transport& transport);
  // The next message; beats are taken in here.
  std::optional<wire::WorkerMessage> poll();
  void post(const wire::WorkerMessage& message);
  // The worker broke a rule or does not answer: it is retired until it has connected anew.
  void retire(const std::string& why);
  // This gateway leaves. Whether the last word is out; ask until it is.
  void leave();
  bool has_left();

  bool is_open() const { return joined_ && session_ && session_->is_open(); }
  bool is_ready() const { return is_open() && !beat_.draining; }
  bool has_room(const Load& more) const;
  void take(const Load& load);
  void give_back(const Load& load);
  void set_context_min(int32_t tokens) { options_.context_tokens_min = tokens; }

  const router::Member& who() const { return who_; }
  const wire::WorkerHello& hello() const { return session_->peer(); }  // while open
  const wire::WorkerBeat& beat() const { return beat_; }
  const Load& load() const { return load_; }
  uint64_t losses() const { return losses_; }

 private:
  void connect(transfer::remote::Transport& transport);
  Change note_end();
  Change note_open();
  void turn_away(const std::string& why);
  void log_once(base::LogLevel level, const std::string& what, const std::string& why);

  const router::Member who_;
  MemberOptions options_;
  const base::Clock& clock_;
  base::Logger* logger_;
  std::unique_ptr<WorkerSession> session_;
  bool joined_ = false;  // the owner was told kJoined and not yet kLost
  bool unfit_ = false;   // it greeted well and cannot be used here
  bool leaving_ = false;
  wire::WorkerBeat beat_;
  Load load_;
  uint64_t last_boot_ = 0;
  uint64_t losses_ = 0;
  base::Nanoseconds next_try_{0};
  std::string last_logged_;
};

}  // namespace bulkhead::serve::roles
