#include "transfer/remote/socket_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace bulkhead::transfer::remote {

namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_' || c == ':' || c == '%';
}

base::Result<SocketAddress> look_up(const std::string& text, int flags) {
  BH_ASSIGN(const HostAndPort at, parse_address(text));
  const std::string port = std::to_string(at.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  if (const int bad = getaddrinfo(at.host.c_str(), port.c_str(), &hints, &found); bad != 0) {
    return base::Error{
        base::ErrorCode::kUnavailable, fmt::format("address {}: {}", text, gai_strerror(bad)), {}};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  SocketAddress out;
  std::memcpy(&out.storage, list->ai_addr, list->ai_addrlen);
  out.length = list->ai_addrlen;
  return out;
}

}  // namespace

base::Result<HostAndPort> parse_address(const std::string& text) {
  const auto wrong = [&] {
    return base::invalid_argument(
        "address", fmt::format("\"{}\" is not an address and a port, as 127.0.0.1:7000", text));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong();
  HostAndPort out;
  out.host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (out.host.empty() || !std::all_of(out.host.begin(), out.host.end(), is_plain) ||
      parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) {
    return wrong();
  }
  return out;
}

base::Result<SocketAddress> resolve(const std::string& text) { return look_up(text, 0); }

base::Result<SocketAddress> numeric_address(const std::string& text) {
  return look_up(text, AI_NUMERICHOST);
}

bool is_wildcard(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof v4);
    return v4.sin_addr.s_addr == htonl(INADDR_ANY);
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof v6);
  return address.storage.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
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
