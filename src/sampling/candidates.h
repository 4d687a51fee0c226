// The tokens a draw may choose from, and how top_k, top_p and min_p narrow them.
//
// Threads: owned by one sampler. Invariants: the kept set is an exact function of the weights: of
// equal weights the lower ids stay; nothing here sorts more than the tokens around the cut; no
// allocation after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bulkhead::sampling {

struct Candidate {
  float exponent = 0.0f;  // (logit - greatest) / temperature, at most 0: the order of the tokens
  float weight = 0.0f;    // exp(exponent)
  int32_t id = 0;
};

class Candidates {
 public:
  explicit Candidates(size_t vocabulary_size);

  // Starts over with every token of non-zero weight and an exponent of at least `floor`.
  void assign(std::span<const float> exponents, std::span<const float> weights, float floor);
  // Keeps the `count` heaviest.
  void keep_count(size_t count);
  // Keeps the smallest set of heaviest tokens that weighs at least `target`, or all.
  void keep_mass(double target);
  // Drops tokens lighter than `share` of the heaviest token's weight, which is 1.
  void keep_above(float share);

  std::span<const Candidate> kept() const { return kept_; }
  double mass() const;
  // The token at `unit` in [0, 1) of the weight kept.
  int32_t draw(double unit) const;

 private:
  // Buckets of equal width over the exponents; heavier tokens are never in a later bucket.
  static constexpr size_t kBuckets = 2048;
  static constexpr float kBucketsPerUnit = 64.0f;  // covers exponents down to -32

  static size_t bucket_of(const Candidate& candidate);
  void fill_histogram();
  // Reorders: candidates of buckets before `bucket`, then those in it; the rest is dropped.
  // Returns how many are before.
  size_t cut_at(size_t bucket);

  std::vector<Candidate> kept_;
  std::vector<uint32_t> counts_;  // [kBuckets]
  std::vector<double> masses_;    // [kBuckets]
};

}  // namespace bulkhead::sampling
