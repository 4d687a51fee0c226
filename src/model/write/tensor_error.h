// How far a quantised tensor is from what it was made of.
//
// Threads: plain values. Invariant: sums are made in a fixed order, so that the same tensor has the
// same figures on every machine and with any number of threads.
#pragma once

#include <algorithm>
#include <cmath>

namespace bulkhead::model::write {

struct TensorError {
  double squares = 0.0;       // sum of squares of the tensor's own values
  double squared = 0.0;       // sum of squared differences
  double amax_squared = 0.0;  // the same, had the scales been by amax
  double largest = 0.0;       // largest difference

  void add(const TensorError& other) {
    squares += other.squares;
    squared += other.squared;
    amax_squared += other.amax_squared;
    largest = std::max(largest, other.largest);
  }
  // Root of the mean squared difference by that of the values; 0 for a tensor of zeros.
  double relative_rms() const { return squares > 0.0 ? std::sqrt(squared / squares) : 0.0; }
  // By how much the search made the root mean square smaller than amax: 0.1 is a tenth.
  double gain() const { return amax_squared > 0.0 ? 1.0 - std::sqrt(squared / amax_squared) : 0.0; }
};

}  // namespace bulkhead::model::write
