// Addresses of workers as text: "127.0.0.1:7000", "[::1]:7000", "decode-0.example:7000".
//
// Threads: pure functions; resolve() may take as long as the system's resolver does, so names are
// resolved once, at start, and step threads know numbers alone.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace bulkhead::transfer::remote {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

struct HostAndPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};
// Errors: kInvalidArgument for text that is no address.
base::Result<HostAndPort> parse_address(const std::string& text);

// Errors: as parse_address(); kUnavailable for a name nobody knows.
base::Result<SocketAddress> resolve(const std::string& text);
// The same without asking anybody: a name is an error.
base::Result<SocketAddress> numeric_address(const std::string& text);
// Stands for every address of this host, and so for none that another could connect to.
bool is_wildcard(const SocketAddress& address);
std::string to_string(const SocketAddress& address);

}  // namespace bulkhead::transfer::remote
