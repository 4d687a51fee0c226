#include "text/byte_spelling.h"

#include <array>

#include "base/utf8.h"

namespace bulkhead::text {
namespace {

constexpr char32_t kFirstStandIn = 0x100;  // bytes without a printable form of their own
constexpr size_t kStandIns = 68;

constexpr bool prints_as_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

// Bytes that have a stand-in, in the order of the stand-ins.
constexpr std::array<unsigned char, kStandIns> stand_in_bytes() {
  std::array<unsigned char, kStandIns> bytes{};
  size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!prints_as_itself(byte)) bytes[count++] = static_cast<unsigned char>(byte);
  }
  return bytes;
}

constexpr auto kStandInBytes = stand_in_bytes();

}  // namespace

std::optional<std::string> bytes_from_spelling(std::string_view spelled) {
  std::string bytes;
  bytes.reserve(spelled.size());
  while (!spelled.empty()) {
    const base::Utf8Char c = base::decode_utf8(spelled);
    if (!c.valid) return std::nullopt;
    if (c.code_point < kFirstStandIn) {
      if (!prints_as_itself(c.code_point)) return std::nullopt;
      bytes += static_cast<char>(c.code_point);
    } else if (c.code_point < kFirstStandIn + kStandIns) {
      bytes += static_cast<char>(kStandInBytes[c.code_point - kFirstStandIn]);
    } else {
      return std::nullopt;
    }
    spelled.remove_prefix(c.length);
  }
  return bytes;
}

}  // namespace bulkhead::text
