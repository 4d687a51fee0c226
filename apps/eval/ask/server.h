// The server that is measured: requests over HTTP, tried again where that can help, and answers
// that are believed only as far as they check out.
//
// Threads: one server object a thread. Invariants: a request is sent at most 1 + `retries` times;
// every answer is bounded (http/client_message.h) and checked for what is read from it.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/client.h"

namespace bulkhead::apps::eval {

// One request, as http::Client sends it: method, target, body.
using Transport = std::function<base::Result<http::ClientResponse>(
    const std::string&, const std::string&, const std::string&)>;

struct Patience {
  unsigned retries = 5;
  // Waits; false when nobody wants the answer any more.
  std::function<bool(std::chrono::milliseconds)> wait;
};

class Server {
 public:
  Server(Transport transport, Patience patience)
      : transport_(std::move(transport)), patience_(std::move(patience)) {}

  // The JSON of a 200. Errors: kUnavailable for what may pass and did not within the retries
  // (connections, 408, 429 and 5xx), kInvalidArgument for a refusal (other 4xx; the message is the
  // server's), kCorruptData for what is no JSON object.
  base::Result<boost::json::value> post(const std::string& target, const std::string& body);
  base::Result<boost::json::value> get(const std::string& target);

 private:
  base::Result<boost::json::value> send(const std::string& method, const std::string& target,
                                        const std::string& body);

  Transport transport_;
  Patience patience_;
};

}  // namespace bulkhead::apps::eval
