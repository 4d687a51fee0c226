#include "transfer/remote/messages.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace bulkhead::transfer::remote {

Id128 random_id() {
  std::array<uint8_t, sizeof(Id128)> bytes{};
  BH_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1,
           "the system gives random bytes");
  return std::bit_cast<Id128>(bytes);
}

std::string to_string(const Id128& id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

std::string_view to_string(MessageType type) {
  static constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
      "hello",  "ready",  "close",  "heartbeat", "ack",    "grant",      "chunk",
      "commit", "accept", "resend", "abort",     "revoke", "revoke_ack",
  };
  return kNames[static_cast<size_t>(type) - 1];
}

}  // namespace bulkhead::transfer::remote
