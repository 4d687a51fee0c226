#include "serve/port_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <fstream>

namespace bulkhead::serve {

base::Status write_port_file(const std::string& path, uint16_t port) {
  if (path.empty()) return {};
  // Written aside and renamed.
  const std::string aside = path + ".part";
  std::ofstream file(aside);
  file << port << '\n';
  file.close();
  if (!file || std::rename(aside.c_str(), path.c_str()) != 0) {
    return base::Error{base::ErrorCode::kIo, fmt::format("--port-file: cannot write {}", path),
                       "--port-file"};
  }
  return {};
}

uint16_t port_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint16_t port = 0;
  if (colon == std::string::npos) return port;
  std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  return port;
}

}  // namespace bulkhead::serve
