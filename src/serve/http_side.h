// What the HTTP address of every process is made of, a server's as a worker's: where it may listen,
// the server behind its loading gate, the I/O thread, and keys that change while it runs.
//
// Threads: the main thread, but for what IoThread starts. Invariants: an address beyond loopback
// needs a key; a key file that cannot be taken over changes nothing.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "http/server.h"
#include "serve/key_file.h"
#include "serve/loading_gate.h"
#include "serve/options.h"

namespace bulkhead::serve {

bool is_loopback(const std::string& host);
// "127.0.0.1:30000", "[::1]:30000".
std::string address_text(const std::string& host, uint16_t port);
// The same as this machine's browsers take it: a wildcard becomes its loopback.
std::string url_text(const std::string& host, uint16_t port);

// Refused: an address that other machines reach, without a key. `given` stands for it in what is
// said, as the operator gave it: "--host 0.0.0.0".
base::Status check_exposure(const std::string& flag, const std::string& given,
                            const std::string& host, const Keys& keys);
void warn_of_open_file(const Keys& keys, base::Logger& logger);
// After SIGHUP.
void reload_keys(const ServeOptions& options,
                 const std::function<void(std::vector<std::string>)>& replace,
                 base::Logger& logger);

// Binds; every request goes to the gate.
base::Result<std::unique_ptr<http::Server>> listen_http(http::ServerOptions options,
                                                        LoadingGate& gate, base::Logger& logger);

// The I/O thread, joined whatever happens.
class IoThread {
 public:
  explicit IoThread(http::Server& server) : server_(server), thread_([this] { run(); }) {}
  ~IoThread() { stop(std::chrono::milliseconds(0)); }
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;
  void stop(std::chrono::milliseconds grace);

 private:
  void run();

  http::Server& server_;
  std::thread thread_;
};

}  // namespace bulkhead::serve
