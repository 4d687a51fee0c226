// The best `top_k` of a stream of scored positions, in memory that does not grow with the stream.
//
// Threads: one stream at a time. Invariant: the outcome depends on the scores and positions alone,
// since no two candidates are equal: of equal scores the earlier position goes first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace bulkhead::kernels {

struct Candidate {
  float score = 0.0f;
  int32_t position = 0;
};

class Selection {
 public:
  // `memory` holds more than top_k candidates.
  Selection(std::span<Candidate> memory, int32_t top_k)
      : memory_(memory), top_k_(static_cast<size_t>(top_k)) {}

  void offer(float score, int32_t position) {
    memory_[count_++] = {std::isnan(score) ? -std::numeric_limits<float>::infinity() : score,
                         position};
    if (count_ == memory_.size()) keep_best();
  }

  // Writes the chosen positions, ascending, and returns their number.
  int32_t finish(int32_t* positions) {
    if (count_ > top_k_) keep_best();
    for (size_t i = 0; i < count_; ++i) positions[i] = memory_[i].position;
    std::sort(positions, positions + count_);
    return static_cast<int32_t>(count_);
  }

 private:
  static bool before(const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.position < b.position;
  }
  void keep_best() {
    std::nth_element(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(top_k_),
                     memory_.begin() + static_cast<std::ptrdiff_t>(count_), before);
    count_ = top_k_;
  }

  std::span<Candidate> memory_;
  size_t top_k_;
  size_t count_ = 0;
};

}  // namespace bulkhead::kernels
