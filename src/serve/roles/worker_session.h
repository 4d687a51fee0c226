// One connection between a gateway and a worker: greeting, order, liveness.
//
// Threads: step thread only; nothing blocks. Invariants: nothing but a greeting passes before both
// sides have proved that they fit and know the key; a frame that is malformed, out of order or out
// of turn closes the session and never reaches the owner; after is_closed() nothing that the peer
// sent has any effect; what waits to be sent is bounded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "transfer/remote/transport.h"
#include "wire/secrets.h"
#include "wire/worker_codec.h"

namespace bulkhead::serve::roles {

struct WorkerSessionOptions {
  wire::WorkerHello identity;  // the session draws its own nonce
  std::string key;             // same in all processes of a deployment
  wire::SequenceBounds bounds;
  // One is due this long after the last; a peer that misses two is lost.
  base::Nanoseconds beat{1'000'000'000};
  base::Nanoseconds linger{500'000'000};  // for the last word of a closed session
  size_t waiting_max = 65536;             // frames that the connection has no room for yet
  // Of each session; what has to run alike twice gives its own.
  std::function<std::array<uint8_t, 16>()> draw_nonce = wire::draw_bytes<16>;
};

class WorkerSession {
 public:
  WorkerSession(WorkerSessionOptions options,
                std::unique_ptr<transfer::remote::Connection> connection, const base::Clock& clock);

  // Sends what waits, keeps time. Call it in every step, before poll().
  void tick();
  // The next message for the owner.
  std::optional<wire::WorkerMessage> poll();
  // More than may wait closes the session.
  void post(const wire::WorkerMessage& message);
  // Since the last call true, once a beat; the owner then posts one.
  bool beat_due();
  // Ends the session; the peer is told why if it still listens, after all that was posted before.
  void close(std::string why);

  bool is_open() const { return stage_ == Stage::kOpen; }
  bool is_closed() const { return stage_ == Stage::kClosed; }
  // Closed, and its last word is out or not wanted: it may be destroyed.
  bool is_finished() const { return is_closed() && connection_ == nullptr; }
  // Before the peer proved itself: its answer was no, or ours was.
  bool was_refused() const { return refused_; }
  // The peer ended it with a last word.
  bool was_left() const { return left_; }
  const std::string& why_closed() const { return why_; }
  const wire::WorkerHello& peer() const { return peer_; }  // valid once open

 private:
  enum class Stage { kConnecting, kGreeting, kOpen, kClosed };

  void send(const wire::WorkerMessage& message);
  void flush();
  std::optional<wire::WorkerMessage> take(wire::WorkerMessage message);
  void hear_hello(wire::WorkerHello hello);
  void hear_ready(const wire::WorkerReady& ready);
  void end(std::string why, bool tell_peer);
  void refuse(std::string why);

  WorkerSessionOptions options_;
  std::unique_ptr<transfer::remote::Connection> connection_;
  const base::Clock& clock_;
  Stage stage_ = Stage::kConnecting;
  std::string why_;
  bool refused_ = false;
  bool left_ = false;
  bool heard_hello_ = false;
  wire::WorkerHello peer_;
  std::deque<transfer::remote::Frame> waiting_;
  transfer::remote::Frame outgoing_;
  transfer::remote::Frame incoming_;
  uint64_t sent_ = 0;
  uint64_t heard_ = 0;
  base::Nanoseconds last_heard_{0};
  base::Nanoseconds last_beat_{0};
  base::Nanoseconds closed_at_{0};
};

}  // namespace bulkhead::serve::roles
