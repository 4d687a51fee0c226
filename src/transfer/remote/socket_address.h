// Addresses of workers as text: "127.0.0.1:7000", "[::1]:7000", "decode-0.example:7000".
//
// Threads: pure functions; resolve() may take as long as the system's resolver does.
#pragma once

#include <sys/socket.h>

#include <string>

#include "base/result.h"

namespace bulkhead::transfer::remote {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Errors: kInvalidArgument for text that is no address, kUnavailable for a name nobody knows.
base::Result<SocketAddress> resolve(const std::string& text);
std::string to_string(const SocketAddress& address);

}  // namespace bulkhead::transfer::remote
