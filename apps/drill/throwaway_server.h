// A server of the drill's own, with faults allowed, and keys that nobody else has.
//
// Threads: one thread. Invariants: those of OwnServer; its keys stand in its environment, which
// other users cannot read.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "apps/drill/target.h"
#include "apps/own_server/own_server.h"
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
  // As OwnServer::start.
  static base::Result<std::unique_ptr<ThrowawayServer>> start(const ThrowawayOptions& options);

  const Target& target() const { return target_; }
  // As OwnServer::ended.
  std::string ended(std::chrono::milliseconds patience) { return server_->ended(patience); }

 private:
  ThrowawayServer() = default;

  Target target_;
  std::unique_ptr<OwnServer> server_;
};

}  // namespace bulkhead::apps
