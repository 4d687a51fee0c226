// A server of a command's own: this very program as a child process, on a free port of loopback.
//
// Threads: one thread. Invariants: the child ends with this object, and with this process however
// that ends; it is in a process group of its own, so that keys typed at a terminal end the command
// alone, which ends it; nothing is left in the file system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps {

struct OwnServerOptions {
  std::vector<std::string> words;        // options of `bulkhead serve`, but for host and port
  std::vector<std::string> environment;  // NAME=value, which other users cannot read
};

class OwnServer {
 public:
  // Returns when the server is ready. BULKHEAD_ variables of this process do not reach it. Errors:
  // kInvalidArgument with what the server said, where it ended instead; kIo.
  static base::Result<std::unique_ptr<OwnServer>> start(const OwnServerOptions& options);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  uint16_t port() const { return port_; }
  // How it ended ("signal 6 (Aborted)"), waiting so long for that; empty: it runs.
  std::string ended(std::chrono::milliseconds patience);
  // What it said first, its banner among that.
  std::string first_words() const;
  std::string last_words() const;

 private:
  OwnServer() = default;
  base::Status spawn(const OwnServerOptions& options, const std::string& port_file);
  base::Status wait_for_port(const std::string& port_file);

  uint16_t port_ = 0;
  pid_t pid_ = -1;
  int log_ = -1;  // both its outputs
  std::string how_it_ended_;
};

}  // namespace bulkhead::apps
