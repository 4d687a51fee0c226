#include "apps/bench/reproduce/step_costs.h"

#include <algorithm>

#include "apps/bench/statistics.h"
#include "base/check.h"

namespace bulkhead::apps::reproduce {
namespace {

constexpr double kTail = 0.99;

std::vector<double> seconds_of(std::span<const StepTime> times) {
  std::vector<double> out;
  out.reserve(times.size());
  for (const StepTime& time : times) out.push_back(time.seconds);
  return out;
}

double quantile_of(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  return percentile(values, quantile);
}

// The slow end of these very steps, over that of the same steps less the guard's part of each.
double own_share_of_tail(std::span<const StepTime> times) {
  std::vector<double> without = seconds_of(times);
  for (size_t i = 0; i < times.size(); ++i) without[i] -= times[i].guard;
  return quantile_of(seconds_of(times), kTail) / quantile_of(std::move(without), kTail) - 1.0;
}

}  // namespace

double own_share(std::span<const StepTime> times) {
  double guard = 0.0;
  double rest = 0.0;
  for (const StepTime& time : times) {
    guard += time.guard;
    rest += time.seconds - time.guard;
  }
  return guard / rest;
}

double median_seconds(std::span<const StepTime> times) {
  return quantile_of(seconds_of(times), 0.5);
}

StepCosts step_costs(std::span<const StepTime> without, std::span<const StepTime> with) {
  BH_CHECK(!with.empty() && without.size() == with.size(), "pairs to compare");
  const std::vector<double> plain = seconds_of(without);
  const std::vector<double> checked = seconds_of(with);
  std::vector<double> shares(plain.size());
  for (size_t i = 0; i < shares.size(); ++i) shares[i] = checked[i] / plain[i] - 1.0;
  return {.throughput = {median_interval(std::move(shares)), own_share(with), plain.size()},
          .p99 = {quantile_growth(plain, checked, kTail), own_share_of_tail(with), plain.size()}};
}

}  // namespace bulkhead::apps::reproduce
