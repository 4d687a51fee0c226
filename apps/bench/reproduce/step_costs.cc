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

// By which share the slow end of these steps lies above that of the same steps less the guard's
// calls and `more` seconds of each.
Interval growth_of_tail(std::span<const StepTime> times, double more) {
  std::vector<double> without = seconds_of(times);
  for (size_t i = 0; i < times.size(); ++i) without[i] -= times[i].guard + more;
  return quantile_growth(without, seconds_of(times), kTail);
}

Interval tail_together(std::span<const StepTime> without, std::span<const StepTime> with) {
  std::vector<double> rest(with.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    rest[i] = with[i].seconds - with[i].guard - without[i].seconds;
  }
  const Interval more = median_interval(std::move(rest));
  return {growth_of_tail(with, more.middle).middle, growth_of_tail(with, more.low).low,
          growth_of_tail(with, more.high).high};
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
  return {
      .throughput = {median_interval(std::move(shares)), own_share(with), plain.size()},
      .p99 = {quantile_growth(plain, checked, kTail), tail_together(without, with), plain.size()}};
}

}  // namespace bulkhead::apps::reproduce
