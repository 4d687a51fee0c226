// A server of the drill's own: this very program as a child process, on a free port of loopback,
// with faults allowed, and keys that nobody else has.
//
// Threads: one thread. Invariants: the child ends with this object, and with this process; its keys
// stand in its environment, which other users cannot read; nothing is left in the file system.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "apps/drill/target.h"
#include "base/result.h"

namespace bulkhead::apps {

struct ThrowawayOptions {
  std::string model_path;
  std::string placement = "shared";
  std::string integrity = "abort";
  unsigned threads = 0;  // 0: the server's default
};

class ThrowawayServer {
 public:
  // Returns when the server is ready. Errors: kInvalidArgument with what the server said, where it
  // ended instead; kIo.
  static base::Result<std::unique_ptr<ThrowawayServer>> start(const ThrowawayOptions& options);
  ~ThrowawayServer();
  ThrowawayServer(const ThrowawayServer&) = delete;
  ThrowawayServer& operator=(const ThrowawayServer&) = delete;

  const Target& target() const { return target_; }
  // How it ended ("signal 6 (Aborted)"), waiting so long for that; empty: it runs.
  std::string ended(std::chrono::milliseconds patience);

 private:
  ThrowawayServer() = default;
  base::Status spawn(const ThrowawayOptions& options, const std::string& port_file);
  base::Status wait_for_port(const std::string& port_file);
  std::string last_words() const;

  Target target_;
  pid_t pid_ = -1;
  int log_ = -1;  // both its outputs
  std::string how_it_ended_;
};

}  // namespace bulkhead::apps
