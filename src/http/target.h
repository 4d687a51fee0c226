// The target of a request line, split and decoded.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace bulkhead::http {

struct Target {
  std::string path;       // percent-decoded, starts with '/'
  std::string query;      // raw, without '?'
  std::string authority;  // of the absolute form, else empty
};

// Accepts the origin form ("/path?query") and the absolute form ("http://host/path?query").
base::Result<Target> parse_target(std::string_view raw);

}  // namespace bulkhead::http
