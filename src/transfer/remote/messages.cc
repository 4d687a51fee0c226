#include "transfer/remote/messages.h"

#include <fmt/format.h>

#include <bit>

#include "wire/secrets.h"

namespace bulkhead::transfer::remote {

Id128 random_id() { return std::bit_cast<Id128>(wire::draw_bytes<sizeof(Id128)>()); }

std::string to_string(const Id128& id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

std::string_view to_string(MessageType type) {
  static constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
      "hello",  "ready",  "close",  "heartbeat", "ack",    "grant",      "chunk",
      "commit", "accept", "resend", "abort",     "revoke", "revoke_ack",
  };
  return kNames[static_cast<size_t>(type) - 1];
}

}  // namespace bulkhead::transfer::remote
