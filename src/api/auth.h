// Bearer keys: who may use the API.
//
// Threads: immutable; any thread. Invariants: keys are kept as digests; a comparison looks at every
// key and at every byte whatever the answer is.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"
#include "http/server.h"

namespace bulkhead::api {

class KeyRing {
 public:
  // No keys: everybody may pass.
  explicit KeyRing(const std::vector<std::string>& keys);

  // 401 unless there is exactly one Authorization header and it carries a known bearer key.
  Failure check(const http::Request& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);
  bool knows(std::string_view key) const;

  std::vector<Digest> keys_;
};

}  // namespace bulkhead::api
