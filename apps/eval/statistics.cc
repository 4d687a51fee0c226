#include "apps/eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bulkhead::apps::eval {
namespace {

constexpr double kNormal95 = 1.959963984540054;  // its two-sided 95 % point

double count(uint64_t number) { return static_cast<double>(number); }

// Correlation of the pairs, drawn half a question towards zero where it is positive.
double pair_correlation(const Paired& pairs) {
  const double both = count(pairs.both), before = count(pairs.only_before);
  const double after = count(pairs.only_after), neither = count(pairs.neither);
  const double margins = (both + before) * (after + neither) * (both + after) * (before + neither);
  if (margins <= 0.0) return 0.0;
  double excess = both * neither - before * after;
  const double half = count(pairs.total()) / 2.0;
  if (excess > half) {
    excess -= half;
  } else if (excess >= 0.0) {
    excess = 0.0;
  }
  return excess / std::sqrt(margins);
}

double hypotenuse(double a, double b, double correlation) {
  return std::sqrt(std::max(0.0, a * a - 2.0 * correlation * a * b + b * b));
}

}  // namespace

Interval wilson(uint64_t right, uint64_t total) {
  if (total == 0) return {0.0, 1.0};
  const double n = count(total), share = count(right) / n, z2 = kNormal95 * kNormal95;
  const double centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
  const double half =
      kNormal95 / (1.0 + z2 / n) * std::sqrt(share * (1.0 - share) / n + z2 / (4.0 * n * n));
  // Rounding must not move an end that is known.
  return {right == 0 ? 0.0 : std::max(0.0, centre - half),
          right == total ? 1.0 : std::min(1.0, centre + half)};
}

double standard_error(const std::vector<double>& values) {
  if (values.size() < 2) return 0.0;
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1.0) / n);
}

Interval paired_difference(const Paired& pairs) {
  if (pairs.total() == 0) return {-1.0, 1.0};
  const double n = count(pairs.total());
  const double after = count(pairs.both + pairs.only_after) / n;
  const double before = count(pairs.both + pairs.only_before) / n;
  const Interval a = wilson(pairs.both + pairs.only_after, pairs.total());
  const Interval b = wilson(pairs.both + pairs.only_before, pairs.total());
  const double correlation = pair_correlation(pairs);
  const double down = hypotenuse(after - a.low, b.high - before, correlation);
  const double up = hypotenuse(before - b.low, a.high - after, correlation);
  const double difference =
      (count(pairs.only_after) - count(pairs.only_before)) / n;  // exact where it is 0
  return {std::max(-1.0, difference - down), std::min(1.0, difference + up)};
}

double mcnemar_exact(uint64_t only_before, uint64_t only_after) {
  const uint64_t flips = only_before + only_after;
  if (only_before == only_after) return 1.0;
  const double n = count(flips);
  double tail = 0.0;
  for (uint64_t k = 0; k <= std::min(only_before, only_after); ++k) {
    tail += std::exp(std::lgamma(n + 1.0) - std::lgamma(count(k) + 1.0) -
                     std::lgamma(n - count(k) + 1.0) - n * std::log(2.0));
  }
  return std::min(1.0, 2.0 * tail);
}

}  // namespace bulkhead::apps::eval
