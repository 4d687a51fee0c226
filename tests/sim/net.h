// The network between simulated processes: addresses, connections, latency, and what goes wrong on
// the way.
//
// Threads: one. Invariants: without a fault a frame arrives once, whole and in order, some time
// after it was posted; what leaves a process after its last frame is lost (limit_posts), so that a
// process can die in the middle of a step; a process that dies silently is never heard of again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "transfer/remote/transport.h"

namespace bulkhead::sim {

// One start of one process.
using ProcessId = uint32_t;

struct NetOptions {
  uint64_t seed = 0;
  size_t room = 16;  // frames under way in one direction
  Nanoseconds delay_least{50'000};
  Nanoseconds delay_most{1'000'000};
};

class SimNet {
 public:
  SimNet(const NetOptions& options, EventQueue& events, FaultLedger& faults);
  ~SimNet();

  // A process's way into the network; it listens when `address` is not empty.
  std::unique_ptr<transfer::remote::Transport> join(ProcessId process, const std::string& address);
  // Only so many more frames leave the process.
  void limit_posts(ProcessId process, int64_t frames) { posts_left_[process] = frames; }
  // From now on its connections neither close nor carry anything.
  void silence(ProcessId process);
  // Partitions end.
  void heal() { cut_until_.clear(); }

  uint64_t delivered() const { return delivered_; }
  // Of everything that was delivered, in order.
  uint64_t digest() const { return digest_; }

 private:
  struct Wire;
  class End;
  class Door;
  struct Listener {
    ProcessId process = 0;
    std::vector<std::unique_ptr<transfer::remote::Connection>> arrivals;
  };

  void post(Wire& wire, size_t side, transfer::remote::Frame frame);
  bool swallow(Wire& wire, size_t side);
  void tamper(Wire& wire, size_t side, transfer::remote::Frame& frame);
  void send(Wire& wire, size_t side, transfer::remote::Frame frame);
  Nanoseconds delay();
  Nanoseconds draw(uint64_t number, Nanoseconds least, Nanoseconds most) const;

  const NetOptions options_;
  EventQueue& events_;
  FaultLedger& faults_;
  base::Rng rng_;
  std::map<std::string, Listener> listeners_;
  std::vector<std::weak_ptr<Wire>> wires_;
  std::map<ProcessId, int64_t> posts_left_;
  std::map<std::pair<ProcessId, ProcessId>, Nanoseconds> cut_until_;
  uint64_t delivered_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace bulkhead::sim
