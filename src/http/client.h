// A small blocking HTTP/1.1 client for the command line (`chat`, `bench`) and for tests.
//
// Threads: one client per thread. Invariants: every call ends within its timeout; a streamed body
// is handed over piece by piece as it arrives.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/server.h"

namespace bulkhead::http {

struct ClientResponse {
  int status = 0;
  std::vector<Header> headers;
  std::string body;  // empty when the body went to `on_piece`
};

class Client {
 public:
  Client(std::string host, uint16_t port, std::chrono::milliseconds timeout);

  // Sends one request. With `on_piece`, each decoded body piece is passed to it and returning false
  // closes the connection (the result then holds what arrived: status and headers).
  base::Result<ClientResponse> send(const std::string& method, const std::string& target,
                                    const std::vector<Header>& headers, const std::string& body,
                                    const std::function<bool(std::string_view)>& on_piece = {});

 private:
  std::string host_;
  uint16_t port_;
  std::chrono::milliseconds timeout_;
};

}  // namespace bulkhead::http
