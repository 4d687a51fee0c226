// A network inside one process: addresses, connections, processes that come and go.
//
// Threads: one. Invariants: frames arrive whole, once and in order, until an end of the connection
// goes away; a transport that goes away closes its listener and nothing else.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "transfer/remote/transport.h"

namespace bulkhead::serve::roles::testing {

class LocalHub {
 public:
  explicit LocalHub(size_t room = 64) : room_(room) {}
  // A process's way into the network; it listens when `address` is not empty.
  std::unique_ptr<transfer::remote::Transport> join(const std::string& address);

 private:
  struct Wire;
  class End;
  class Door;
  using Arrivals = std::deque<std::unique_ptr<transfer::remote::Connection>>;

  const size_t room_;  // frames under way in one direction
  std::map<std::string, Arrivals> listeners_;
};

}  // namespace bulkhead::serve::roles::testing
