// The address of a server as people write it.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace bulkhead::apps {

struct ServerAddress {
  std::string host;
  uint16_t port = 0;
};

// "http://127.0.0.1:30000", "http://[::1]:30000/". Errors: kInvalidArgument with an example.
base::Result<ServerAddress> parse_server_url(std::string url);

}  // namespace bulkhead::apps
