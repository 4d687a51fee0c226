// Means and percentiles of measured values.
//
// Threads: pure functions. Invariant: percentiles interpolate linearly between the two nearest
// values (rank (n - 1) p, as NumPy does by default), so figures compare with those of other tools.
#pragma once

#include <cstddef>
#include <vector>

namespace bulkhead::apps {

// `share` in [0, 1] of `sorted`, which must be sorted; 0 for an empty one.
double percentile(const std::vector<double>& sorted, double share);

struct Summary {
  size_t count = 0;  // all others are 0 where this is
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p95 = 0.0, p99 = 0.0, max = 0.0;
};
Summary summarize(std::vector<double> values);

}  // namespace bulkhead::apps
