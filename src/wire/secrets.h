// What processes need to trust each other: bytes nobody can guess, proofs that a key is known, and
// digests that people can compare.
//
// Threads: pure functions but for the system's generator, which any thread may ask.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bulkhead::wire {

void draw_bytes(std::span<uint8_t> out);
template <size_t n>
std::array<uint8_t, n> draw_bytes() {
  std::array<uint8_t, n> out{};
  draw_bytes(out);
  return out;
}
uint64_t draw_word();

std::array<uint8_t, 32> hmac_sha256(std::string_view key, std::span<const std::byte> text);

// Sixteen hexadecimal digits: enough to tell two models apart in a log.
std::string short_hex(const std::array<uint8_t, 32>& digest);

}  // namespace bulkhead::wire
