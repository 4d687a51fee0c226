#include "apps/bench/arrivals.h"

#include <cmath>

#include "base/rng.h"

namespace bulkhead::apps {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr uint64_t kArrivalStream = 0x6172726976616c73;

// Uniform in (0, 1]: its logarithm is finite.
double positive_unit(base::Rng& random) { return 1.0 - random.unit(); }

double normal(base::Rng& random) {
  const double radius = std::sqrt(-2.0 * std::log(positive_unit(random)));
  return radius * std::cos(2.0 * kPi * random.unit());
}

// Gamma of scale 1 (Marsaglia and Tsang 2000); shapes below 1 are drawn one higher and lowered.
double gamma(base::Rng& random, double shape) {
  if (shape == 1.0) return -std::log(positive_unit(random));
  if (shape < 1.0) {
    return gamma(random, shape + 1.0) * std::pow(positive_unit(random), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(random);
    const double v = std::pow(1.0 + c * x, 3.0);
    if (v <= 0.0) continue;
    if (std::log(positive_unit(random)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

std::vector<double> arrival_times(uint64_t count, double rate, double burstiness, uint64_t seed) {
  base::Rng random(seed, kArrivalStream);
  std::vector<double> times;
  times.reserve(count);
  double now = 0.0;
  for (uint64_t i = 0; i < count; ++i) {
    times.push_back(now);
    now += gamma(random, burstiness) / (rate * burstiness);
  }
  return times;
}

}  // namespace bulkhead::apps
