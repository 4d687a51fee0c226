#include "apps/server_address.h"

#include <fmt/format.h>

namespace bulkhead::apps {

base::Result<ServerAddress> parse_server_url(std::string url) {
  const base::Error bad = base::invalid_argument(
      "url", fmt::format("'{}' is not an address like http://127.0.0.1:30000", url));
  if (url.rfind("http://", 0) != 0) return bad;
  url.erase(0, 7);
  while (!url.empty() && url.back() == '/') url.pop_back();
  const size_t colon = url.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  const std::string digits = url.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return bad;
  }
  const unsigned long port = std::stoul(digits);
  if (port == 0 || port > 65535) return bad;
  std::string host = url.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return ServerAddress{host, static_cast<uint16_t>(port)};
}

}  // namespace bulkhead::apps
