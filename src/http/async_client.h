// Many HTTP/1.1 requests at once on one thread, for load generators: hundreds of streams, each
// handed over piece by piece as it arrives.
//
// Threads: one thread creates, fills and runs a client; every callback comes on it, inside run().
// Invariants: every call ends with exactly one on_done, within its timeout; a connection serves one
// call. Destroying the client drops what is still open without on_done.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/client.h"

namespace bulkhead::http {

struct AsyncCall {
  std::string method = "POST";
  std::string target;
  std::vector<Header> headers;
  std::string body;
  std::chrono::milliseconds timeout{600'000};  // from send() to the end of the answer
  // Each decoded piece of the body; false closes the connection and ends the call with what came.
  // Empty: the body is kept.
  std::function<bool(std::string_view)> on_piece = {};
  // Errors: kUnavailable without a connection, kCancelled when the time is up, kIo for a connection
  // that broke, kCorruptData for what is no HTTP, kInvalidArgument for what cannot be sent.
  std::function<void(base::Result<ClientResponse>)> on_done;
};

class AsyncClient {
 public:
  // Resolves the name. Errors: kUnavailable.
  static base::Result<std::unique_ptr<AsyncClient>> create(const std::string& host, uint16_t port);
  virtual ~AsyncClient() = default;

  virtual void send(AsyncCall call) = 0;
  // Calls `task` after `delay`; what is due already comes as soon as possible, in order.
  virtual void after(std::chrono::nanoseconds delay, std::function<void()> task) = 0;
  // Returns when no call is open and no task is due.
  virtual void run() = 0;
};

}  // namespace bulkhead::http
