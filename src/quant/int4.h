// Four-bit codes, eight to a 32-bit word: how checkpoints pack them.
//
// Threads: pure functions. Exact both ways for every word.
#pragma once

#include <array>
#include <cstdint>

namespace bulkhead::quant {

inline constexpr uint32_t kCodesPerWord = 8;

// Where each of eight neighbours stands in its word, as an index of nibbles from the lowest one.
using NibbleOrder = std::array<uint8_t, kCodesPerWord>;
inline constexpr NibbleOrder kSequential = {0, 1, 2, 3, 4, 5, 6, 7};
inline constexpr NibbleOrder kAwqOrder = {0, 4, 1, 5, 2, 6, 3, 7};  // nibbles hold 0 2 4 6 1 3 5 7

using WordCodes = std::array<uint8_t, kCodesPerWord>;

inline uint32_t nibble_of(uint32_t word, uint32_t nibble) { return (word >> (4 * nibble)) & 15u; }

inline WordCodes unpack_word(uint32_t word, const NibbleOrder& order) {
  WordCodes codes{};
  for (uint32_t i = 0; i < kCodesPerWord; ++i) {
    codes[i] = static_cast<uint8_t>(nibble_of(word, order[i]));
  }
  return codes;
}

// `codes` are below 16.
inline uint32_t pack_word(const WordCodes& codes, const NibbleOrder& order) {
  uint32_t word = 0;
  for (uint32_t i = 0; i < kCodesPerWord; ++i) {
    word |= static_cast<uint32_t>(codes[i]) << (4u * order[i]);
  }
  return word;
}

}  // namespace bulkhead::quant
