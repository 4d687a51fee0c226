// A read-mostly hash index from keys stored elsewhere to 32-bit numbers, safe against crafted keys.
//
// Threads: const members from any thread; filling from one.
// Invariants: at most half full; no lookup looks at more than kMaxProbes slots. Keys that crowd one
// place make insert() fail instead of slow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace bulkhead::text {

__extension__ using Wide = unsigned __int128;  // both compilers have it, ISO C++ does not

inline uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_of(std::string_view key) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  uint64_t hash = key.size() ^ 0x243F6A8885A308D3;
  size_t at = 0;
  for (; at + 8 <= key.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, key.data() + at, 8);
    hash = mix(hash ^ word, kOdd);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, key.data() + at, key.size() - at);
  return mix(hash ^ tail, kOdd ^ 0x5851F42D4C957F2D);
}

inline uint64_t hash_of(uint64_t key) { return mix(key ^ 0x243F6A8885A308D3, 0x9E3779B97F4A7C15); }

// Slot: {Key key; uint32_t value;}-like, default-constructed slots have empty() == true.
template <typename Slot>
class ProbeTable {
 public:
  static constexpr size_t kMaxProbes = 512;

  explicit ProbeTable(size_t entries) : slots_(std::bit_ceil(entries * 2 + 2)) {}

  // The slot for which `same` holds, or the empty slot where it belongs; nullptr when the
  // neighbourhood is full.
  template <typename Same>
  Slot* place(uint64_t hash, Same same) {
    return const_cast<Slot*>(std::as_const(*this).probe(hash, same));
  }

  // The slot for which `same` holds, or nullptr.
  template <typename Same>
  const Slot* find(uint64_t hash, Same same) const {
    const Slot* slot = probe(hash, same);
    return slot == nullptr || slot->empty() ? nullptr : slot;
  }

 private:
  template <typename Same>
  const Slot* probe(uint64_t hash, Same same) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = 0; i < kMaxProbes; ++i) {
      const Slot& slot = slots_[(hash + i) & mask];
      if (slot.empty() || same(slot)) return &slot;
    }
    return nullptr;
  }

  std::vector<Slot> slots_;
};

}  // namespace bulkhead::text
