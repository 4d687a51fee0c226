// Keys: who may use the API, whose requests are whose, and who may administer the server.
//
// Threads: immutable; any thread. Invariants: keys are kept as digests under a secret of this
// process; a comparison looks at every key and at every byte whatever the answer is; equal keys
// under one secret are one tenant.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"
#include "http/server.h"

namespace bulkhead::api {

// What stands for a key where requests and cached prompts are told apart; says nothing about the
// key to whoever sees it. All zero where no keys are configured.
using TenantDigest = std::array<uint8_t, 32>;

struct Caller {
  TenantDigest tenant{};
  bool is_admin = false;
};

struct KeyOptions {
  std::vector<std::string> api_keys;  // empty: everybody may pass
  std::string admin_key;              // empty: none
  // Nobody but this machine reaches the server: with no key at all, everybody is an admin.
  bool loopback_only = false;
};

class KeyRing {
 public:
  using Secret = std::array<uint8_t, 32>;
  static Secret random_secret();

  KeyRing(const KeyOptions& options, const Secret& secret);

  // 401 unless there is exactly one Authorization header and it carries a known bearer key. Without
  // API keys anybody passes, and only the admin key makes a difference.
  Failure check(const http::Request& request, Caller& out) const;
  // 403, naming the flag, unless the caller is an admin.
  Failure check_admin(const Caller& caller) const;

 private:
  bool is_admin_key(const TenantDigest& digest) const;

  std::vector<TenantDigest> keys_;
  std::optional<TenantDigest> admin_;
  bool everybody_is_admin_ = false;
  Secret secret_;
};

}  // namespace bulkhead::api
