// Seeded random numbers: a counter-based generator, so that a draw is a pure function of its key.
//
// Threads: plain values. Invariant: the same (seed, stream, index) gives the same 64 bits on every
// machine. Mixing function: SplitMix64's finaliser (Steele, Lea, Flood 2014).
#pragma once

#include <cstdint>

namespace bulkhead::base {

inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// 64 random bits for draw number `index` of stream `stream` under `seed`.
inline uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix64(mix64(mix64(seed) ^ stream) ^ index);
}

// Uniform in [0, 1) with 53 bits.
inline double random_unit(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1.0p-53;
}

// A sequence of draws for tests and generators.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  uint64_t bits() { return random_bits(seed_, stream_, index_++); }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound) { return bits() % bound; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t index_ = 0;
};

}  // namespace bulkhead::base
