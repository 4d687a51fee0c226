// One connection between a prefill worker and a decode worker: greeting, order, liveness.
//
// Threads: step thread only; nothing blocks. Invariants: no message but a greeting passes before
// both sides have proved that they fit and know the key; a frame of another session, one seen
// before and one that is malformed never reach the owner, the last one closes the session; after
// closed() nothing that the peer sent has any effect.
#pragma once

#include <bitset>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "transfer/remote/codec.h"
#include "transfer/remote/transport.h"

namespace bulkhead::transfer::remote {

struct SessionOptions {
  Hello identity;                                // the session draws its own nonce
  std::string peer_key;                          // same on all workers of a deployment
  base::Nanoseconds heartbeat{500'000'000};      // one is due this long after the last
  base::Nanoseconds silence_max{5'000'000'000};  // then the peer is lost; > its longest step
  base::Nanoseconds linger{500'000'000};         // for the last words of a closed session
  uint32_t window_frames = 64;  // chunks under way, at most half the receiver's memory of frames
  size_t waiting_frames_max = 4096;  // control messages that the connection has no room for yet
  // Where nonces and the names of grants come from; what has to run alike twice gives its own.
  std::function<Id128()> draw_id = random_id;
};

struct SessionCounters {
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t replayed = 0;     // seen before, or too old to tell
  uint64_t malformed = 0;    // at most one a session
  uint64_t misdirected = 0;  // of another session
};

// How one transfer of a session came out; fault kNone: well.
struct TransferEnd {
  TransferId transfer;
  FaultReport why;
};

class Session {
 public:
  Session(SessionOptions options, std::unique_ptr<Connection> connection, const base::Clock& clock);

  // Sends what waits, keeps time. Call it in every step, before poll().
  void tick();
  // The next message for the owner; its payload holds until the next call.
  std::optional<Message> poll();

  // Takes the message whatever the connection's room; more than can wait closes the session.
  void post(const Message& message);
  // There is room for a chunk: window, connection, and nothing in front of it.
  bool can_post_chunk() const;
  // Since the last call true, every `heartbeat`; the owner then posts one.
  bool heartbeat_due();

  // Ends the session; the peer is told why if it still listens.
  void close(Fault fault, std::string text);
  bool is_open() const { return stage_ == Stage::kOpen; }
  bool is_closed() const { return stage_ == Stage::kClosed; }
  // Closed, and its last words are out or not wanted: it may be destroyed.
  bool is_finished() const { return is_closed() && connection_ == nullptr; }
  const FaultReport& why_closed() const { return why_; }

  const Hello& own() const { return options_.identity; }
  const Hello& peer() const { return peer_; }  // valid once open
  const SessionCounters& counters() const { return counters_; }

 private:
  enum class Stage { kConnecting, kGreeting, kOpen, kClosed };

  void greet();
  void flush();
  void keep_time();
  void finish_closing();
  void send(const Message& message);
  std::optional<Message> take(DecodedFrame decoded);
  bool is_new(uint64_t sequence);
  bool belongs_here(const FrameHeader& header) const;
  void hear_hello(const Hello& hello);
  void hear_ready(const Ready& ready);
  void end(Fault fault, std::string text, bool tell_peer);

  SessionOptions options_;
  std::unique_ptr<Connection> connection_;
  const base::Clock& clock_;
  Stage stage_ = Stage::kConnecting;
  FaultReport why_;
  Hello peer_;
  bool heard_hello_ = false;
  bool heard_ready_ = false;

  std::deque<Frame> waiting_;
  Frame outgoing_;
  Frame incoming_;

  uint64_t sequence_ = 0;      // of the last frame made
  uint64_t peer_arrived_ = 0;  // of ours, as the peer says
  uint64_t highest_ = 0;       // of the peer's
  uint64_t highest_told_ = 0;  // highest_ in the last frame made
  std::bitset<1024> seen_;     // by sequence % 1024, of the last 1024
  base::Nanoseconds last_heard_{0};
  base::Nanoseconds last_heartbeat_{0};
  base::Nanoseconds closed_at_{0};
  SessionCounters counters_;
};

}  // namespace bulkhead::transfer::remote
