#include "apps/bench/reproduce/paired.h"

#include <algorithm>
#include <cmath>

#include "apps/bench/statistics.h"
#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::apps::reproduce {
namespace {

constexpr double kTail = 0.025;  // beyond either end of an interval
constexpr uint64_t kSeed = 97;
constexpr size_t kDraws = 400;

double quantile_of(std::vector<double>& values, double quantile) {
  std::sort(values.begin(), values.end());
  return percentile(values, quantile);
}

}  // namespace

size_t outside_sign_interval(size_t count) {
  // Each value lies below the true median or above it, as a coin falls.
  const auto n = static_cast<double>(count);
  double logarithm = -n * std::log(2.0);  // of the probability that exactly `k` of them do
  double at_most = 0.0;                   // the probability that so many or fewer do
  for (size_t k = 0; k < count; ++k) {
    at_most += std::exp(logarithm);
    if (at_most > kTail) return k == 0 ? 0 : k - 1;
    const auto heads = static_cast<double>(k);
    logarithm += std::log((n - heads) / (heads + 1.0));
  }
  return 0;
}

Interval median_interval(std::vector<double> values) {
  BH_CHECK(!values.empty(), "values to look at");
  std::sort(values.begin(), values.end());
  const size_t outside = outside_sign_interval(values.size());
  return {percentile(values, 0.5), values[outside], values[values.size() - 1 - outside]};
}

Interval quantile_growth(std::span<const double> plain, std::span<const double> changed,
                         double quantile) {
  BH_CHECK(!plain.empty() && plain.size() == changed.size(), "pairs to compare");
  std::vector<double> a(plain.begin(), plain.end());
  std::vector<double> b(changed.begin(), changed.end());
  const double middle = quantile_of(b, quantile) / quantile_of(a, quantile) - 1.0;
  std::vector<double> drawn;
  drawn.reserve(kDraws);
  const auto block = static_cast<size_t>(std::lround(std::sqrt(plain.size())));
  for (size_t draw = 0; draw < kDraws; ++draw) {
    base::Rng rng(kSeed, draw);
    size_t begin = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (i % block == 0) begin = static_cast<size_t>(rng.below(plain.size()));
      const size_t pair = (begin + i % block) % plain.size();  // the first follows the last
      a[i] = plain[pair];
      b[i] = changed[pair];
    }
    drawn.push_back(quantile_of(b, quantile) / quantile_of(a, quantile) - 1.0);
  }
  std::sort(drawn.begin(), drawn.end());
  return {middle, percentile(drawn, kTail), percentile(drawn, 1.0 - kTail)};
}

}  // namespace bulkhead::apps::reproduce
