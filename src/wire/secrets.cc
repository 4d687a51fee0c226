#include "wire/secrets.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <bit>

#include "base/check.h"

namespace bulkhead::wire {

void draw_bytes(std::span<uint8_t> out) {
  BH_CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1,
           "the system gives random bytes");
}

uint64_t draw_word() { return std::bit_cast<uint64_t>(draw_bytes<sizeof(uint64_t)>()); }

std::array<uint8_t, 32> hmac_sha256(std::string_view key, std::span<const std::byte> text) {
  std::array<uint8_t, 32> out{};
  unsigned int size = 0;
  const auto* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &size);
  BH_CHECK(made != nullptr && size == out.size(), "HMAC-SHA-256 gives 32 bytes");
  return out;
}

std::string short_hex(const std::array<uint8_t, 32>& digest) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace bulkhead::wire
