// How frames get from one process to another.
//
// Threads: step thread only; nothing blocks. Invariants: a frame arrives whole or not at all; a
// connection delivers in the order posted, each frame once, or it closes (peers check that they
// do); after close() nothing more is delivered.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace bulkhead::transfer::remote {

using Frame = std::vector<std::byte>;

class Connection {
 public:
  enum class State { kConnecting, kOpen, kClosed };

  virtual ~Connection() = default;
  virtual State state() const = 0;
  // Why it is closed, for the log.
  virtual std::string reason() const = 0;
  // Whether post() would take a frame now. False is backpressure: ask again later.
  virtual bool can_post() const = 0;
  // Takes the frame and leaves an empty one, with room from an earlier frame where there is some.
  // Only when can_post(). What is posted may be lost only together with the connection.
  virtual void post(Frame& frame) = 0;
  // The next frame that has arrived whole, into `frame`; false when there is none.
  virtual bool poll(Frame& frame) = 0;
  // Everything posted has left this process. Ask until it says so, with progress in between.
  virtual bool drained() = 0;
  virtual void close() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Moves things on: connections, sends, receipts.
  virtual void progress() = 0;
  // An outgoing connection; it opens, or closes with a reason, later. No name is looked up here:
  // that may take seconds.
  virtual base::Result<std::unique_ptr<Connection>> connect(const std::string& address) = 0;
  // The next incoming connection, if there is one.
  virtual std::unique_ptr<Connection> accept() = 0;
  // Where others reach this one, as connect() takes it; empty when it does not listen.
  virtual std::string address() const = 0;
};

}  // namespace bulkhead::transfer::remote
