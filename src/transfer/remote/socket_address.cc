#include "transfer/remote/socket_address.h"

#include <fmt/format.h>
#include <netdb.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace bulkhead::transfer::remote {

base::Result<SocketAddress> resolve(const std::string& text) {
  const size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return base::invalid_argument(
        "address", fmt::format("\"{}\" is not an address and a port, as 127.0.0.1:7000", text));
  };
  if (colon == std::string::npos) return wrong();
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  uint16_t number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (host.empty() || parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) {
    return wrong();
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int bad = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); bad != 0) {
    return base::Error{
        base::ErrorCode::kUnavailable, fmt::format("address {}: {}", text, gai_strerror(bad)), {}};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  SocketAddress out;
  std::memcpy(&out.storage, list->ai_addr, list->ai_addrlen);
  out.length = list->ai_addrlen;
  return out;
}

std::string to_string(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int bad = getnameinfo(address.get(), address.length, host.data(), host.size(), port.data(),
                              port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (bad != 0) return "?";
  const bool v6 = address.storage.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host.data(), v6 ? "]" : "", port.data());
}

}  // namespace bulkhead::transfer::remote
