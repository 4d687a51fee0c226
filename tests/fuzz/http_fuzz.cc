// Feeds bytes to the HTTP request parser, once whole and once in pieces of a length taken from the
// input, and checks that both readings agree and stay within the limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "http/request_parser.h"

namespace {

using bulkhead::http::Request;
using bulkhead::http::RequestLimits;
using bulkhead::http::RequestParser;

constexpr size_t kRequestsMax = 16;

// Everything a server would act on, one line per request.
struct Reading {
  std::vector<std::string> requests;
  int error_status = 0;

  bool operator==(const Reading&) const = default;
};

void require(bool condition) {
  if (!condition) std::abort();
}

std::string describe(const Request& request, bool keep_alive) {
  require(!request.path.empty() && request.path.front() == '/');
  require(request.path.find('\0') == std::string::npos);
  require(request.header_count("content-length") <= 1);
  require(request.header_count("content-length") == 0 ||
          request.header_count("transfer-encoding") == 0);
  std::string text = request.method + '\1' + request.path + '\1' + request.query + '\1' +
                     request.body + (keep_alive ? "\1k" : "\1c");
  for (const auto& header : request.headers) {
    require(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    text += '\2' + header.name + '\1' + header.value;
  }
  return text;
}

Reading read(std::string_view bytes, size_t step, const RequestLimits& limits) {
  Reading reading;
  RequestParser parser(limits);
  std::string in;
  while (!bytes.empty() && reading.requests.size() < kRequestsMax) {
    in += bytes.substr(0, step);
    bytes.remove_prefix(step < bytes.size() ? step : bytes.size());
    for (;;) {
      const size_t used = parser.feed(in);
      require(used <= in.size());
      in.erase(0, used);
      require(parser.body_bytes_received() <= limits.body_bytes_max);
      if (parser.state() == RequestParser::State::kFailed) {
        require(parser.error().status >= 400 && parser.error().status < 600);
        reading.error_status = parser.error().status;
        return reading;
      }
      if (parser.state() != RequestParser::State::kDone) break;
      const bool keep_alive = parser.keep_alive();
      reading.requests.push_back(describe(parser.take(), keep_alive));
      parser.reset();
      if (reading.requests.size() == kRequestsMax) break;
    }
  }
  return reading;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  RequestLimits limits;
  limits.header_bytes_max = 512;
  limits.target_bytes_max = 128;
  limits.header_count_max = 8;
  limits.body_bytes_max = 1024;
  const size_t step = 1 + data[0] % 64;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  require(read(bytes, bytes.size(), limits) == read(bytes, step, limits));
  return 0;
}
