#include "http/target.h"

#include <algorithm>

#include "http/message.h"

namespace bulkhead::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

base::Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return base::invalid_argument("path", "a '%' in the path is not followed by two hex digits");
    }
    const int byte = high * 16 + low;
    if (byte < 0x20 || byte == 0x7f) {
      return base::invalid_argument("path", "the path contains an encoded control character");
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

// The path and query behind "http://authority", which moves into `target`.
base::Result<std::string_view> strip_authority(std::string_view raw, Target& target) {
  const size_t scheme_end = raw.find("://");
  if (scheme_end == std::string_view::npos ||
      !(equals_ignoring_case(raw.substr(0, scheme_end), "http") ||
        equals_ignoring_case(raw.substr(0, scheme_end), "https"))) {
    return base::invalid_argument("path",
                                  "the request target must be a path or an http:// address");
  }
  const std::string_view rest = raw.substr(scheme_end + 3);
  const size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  if (authority_end == 0) {
    return base::invalid_argument("path", "the address in the request target has no host");
  }
  target.authority = std::string(rest.substr(0, authority_end));
  return rest.substr(authority_end);
}

}  // namespace

base::Result<Target> parse_target(std::string_view raw) {
  for (const char c : raw) {
    if (c <= 0x20 || c >= 0x7f || c == '#') {
      return base::invalid_argument("path",
                                    "the request target contains a character that must be encoded");
    }
  }
  Target target;
  std::string_view rest = raw;
  if (!raw.starts_with('/')) {
    BH_ASSIGN(rest, strip_authority(raw, target));
  }
  const size_t question = rest.find('?');
  if (question != std::string_view::npos) target.query = std::string(rest.substr(question + 1));
  const std::string_view path = rest.substr(0, std::min(question, rest.size()));
  BH_ASSIGN(target.path, percent_decode(path));
  if (target.path.empty()) target.path = "/";
  return target;
}

}  // namespace bulkhead::http
