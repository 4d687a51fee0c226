#include "api/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kScheme = "bearer ";

ApiError unauthorized(std::string message) {
  return ApiError{401, "authentication_error", "invalid_api_key", std::move(message), {}, false};
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The key behind "Bearer "; empty when the header has another form.
std::string_view bearer_key(std::string_view value) {
  if (value.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (lower(value[i]) != kScheme[i]) return {};
  }
  return value.substr(kScheme.size());
}

// HMAC-SHA-256: who sees a digest cannot try out keys on it.
TenantDigest digest_of(std::string_view key, const KeyRing::Secret& secret) {
  TenantDigest out;
  const std::string bytes(key);
  unsigned size = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data(), &size);
  BH_CHECK(done != nullptr && size == out.size(), "HMAC-SHA-256 is always there");
  return out;
}

bool equal(const TenantDigest& a, const TenantDigest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

KeyRing::Secret KeyRing::random_secret() {
  Secret secret;
  const int drawn = RAND_bytes(secret.data(), static_cast<int>(secret.size()));
  BH_CHECK(drawn == 1, "the system gives random bytes");
  return secret;
}

KeyRing::KeyRing(const KeyOptions& options, const Secret& secret) : secret_(secret) {
  for (const std::string& key : options.api_keys) keys_.push_back(digest_of(key, secret_));
  if (!options.admin_key.empty()) admin_ = digest_of(options.admin_key, secret_);
  everybody_is_admin_ = options.loopback_only && keys_.empty() && !admin_;
}

bool KeyRing::is_admin_key(const TenantDigest& digest) const {
  return admin_ && equal(*admin_, digest);
}

Failure KeyRing::check(const http::Request& request, Caller& out) const {
  out = Caller{};
  out.is_admin = everybody_is_admin_;
  if (keys_.empty() && !admin_) return std::nullopt;
  const size_t headers = request.header_count("authorization");
  if (headers > 1) return unauthorized("the Authorization header was sent more than once");
  const std::string_view key = bearer_key(request.header("authorization"));
  const TenantDigest digest = digest_of(key, secret_);
  bool known = false;
  for (const TenantDigest& one : keys_) known = equal(one, digest) || known;
  const bool admin = is_admin_key(digest);
  if (!key.empty() && (known || admin)) {
    out = Caller{digest, admin};
    return std::nullopt;
  }
  if (keys_.empty()) return std::nullopt;
  if (headers == 0) {
    return unauthorized("an API key is needed: send the header 'Authorization: Bearer <key>'");
  }
  if (key.empty()) {
    return unauthorized("the Authorization header must have the form 'Bearer <key>'");
  }
  return unauthorized("the API key is not known here");
}

Failure KeyRing::check_admin(const Caller& caller) const {
  if (caller.is_admin) return std::nullopt;
  return ApiError{403,
                  "permission_error",
                  "insufficient_scope",
                  admin_ ? "this needs the key that the server was given with --admin-key"
                         : "this needs an admin key: start the server with --admin-key (or "
                           "BULKHEAD_ADMIN_KEY) and send that key",
                  {},
                  false};
}

}  // namespace bulkhead::api
