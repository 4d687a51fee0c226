#include "api/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

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

}  // namespace

KeyRing::KeyRing(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) keys_.push_back(digest(key));
}

Failure KeyRing::check(const http::Request& request) const {
  if (keys_.empty()) return std::nullopt;
  const size_t headers = request.header_count("authorization");
  if (headers == 0) {
    return unauthorized("an API key is needed: send the header 'Authorization: Bearer <key>'");
  }
  if (headers > 1) return unauthorized("the Authorization header was sent more than once");
  const std::string_view key = bearer_key(request.header("authorization"));
  if (key.empty()) {
    return unauthorized("the Authorization header must have the form 'Bearer <key>'");
  }
  if (!knows(key)) return unauthorized("the API key is not known here");
  return std::nullopt;
}

KeyRing::Digest KeyRing::digest(std::string_view key) {
  Digest out;
  const std::string bytes(key);
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data());
  return out;
}

bool KeyRing::knows(std::string_view key) const {
  const Digest given = digest(key);
  bool found = false;
  for (const Digest& known : keys_) {
    const bool equal = CRYPTO_memcmp(known.data(), given.data(), given.size()) == 0;
    found = found || equal;
  }
  return found;
}

}  // namespace bulkhead::api
