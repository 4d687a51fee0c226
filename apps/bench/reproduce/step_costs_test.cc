#include "apps/bench/reproduce/step_costs.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace bulkhead::apps::reproduce {
namespace {

// Steps of 10, 11, ... ms, the last one slow, of which the guard takes a hundredth.
std::vector<StepTime> steps(double more, double guard) {
  std::vector<StepTime> out;
  for (int i = 0; i < 199; ++i) {
    const double seconds = (0.010 + 0.001 * (i % 7)) * (1.0 + more);
    out.push_back({seconds, seconds * guard});
  }
  out.push_back({0.2 * (1.0 + more), 0.2 * (1.0 + more) * guard});
  return out;
}

TEST(StepCosts, PairsSayByWhatShareStepsAreLonger) {
  const StepCosts costs = step_costs(steps(0.0, 0.0), steps(0.005, 0.01));
  EXPECT_EQ(costs.throughput.pairs, 200u);
  EXPECT_NEAR(costs.throughput.paired.middle, 0.005, 1e-9);
  EXPECT_NEAR(costs.throughput.paired.low, 0.005, 1e-9);
  EXPECT_NEAR(costs.throughput.paired.high, 0.005, 1e-9);
  EXPECT_EQ(costs.p99.steps, 200u);
  EXPECT_NEAR(costs.p99.apart.middle, 0.005, 1e-9);
}

TEST(StepCosts, TheGuardsOwnTimeIsAShareOfTheRest) {
  const StepCosts costs = step_costs(steps(0.0, 0.0), steps(0.0, 0.01));
  EXPECT_NEAR(costs.throughput.own, 0.01 / 0.99, 1e-9);
  EXPECT_NEAR(costs.throughput.paired.middle, 0.0, 1e-9) << "the whole step is as long";
}

// Which steps are slow has nothing to do with the check.
std::vector<StepTime> stormy(double more, double guard, uint64_t seed) {
  std::vector<StepTime> out;
  base::Rng rng(seed);
  for (int i = 0; i < 4000; ++i) {
    const double storm = rng.unit() < 0.03 ? 0.02 * rng.unit() : 0.0;
    out.push_back({0.010 + 1e-5 * rng.unit() + storm + more + guard, guard});
  }
  return out;
}

TEST(StepCosts, TheSlowEndTogetherShowsWhatNoiseHidesFromTheArmsApart) {
  const StepCosts costs = step_costs(stormy(0.0, 0.0, 1), stormy(8e-6, 12e-6, 2));
  EXPECT_LT(costs.p99.apart.low, -0.01);
  EXPECT_GT(costs.p99.apart.high, 0.01);
  // 20 of some 23,000 microseconds.
  EXPECT_NEAR(costs.p99.together.middle, 0.00087, 0.0001);
  EXPECT_GT(costs.p99.together.low, 0.0006);
  EXPECT_LT(costs.p99.together.high, 0.0011);
}

TEST(StepCosts, AGuardThatIsSlowInSlowStepsShowsInTheTailAlone) {
  std::vector<StepTime> with = steps(0.0, 0.0);
  // Four of 200: the 99th percentile lies between two of them.
  for (size_t i = 0; i < 4; ++i) with[50 * i] = {0.1, 0.05};
  const StepCosts costs = step_costs(steps(0.0, 0.0), with);
  EXPECT_LT(costs.throughput.paired.high, 1e-9);
  EXPECT_GT(costs.p99.together.middle, 0.9);
  EXPECT_GT(costs.p99.apart.middle, 4.0);
}

TEST(StepCosts, TheMedianIsOfWholeSteps) {
  EXPECT_DOUBLE_EQ(median_seconds(steps(0.0, 0.01)), 0.013);
}

}  // namespace
}  // namespace bulkhead::apps::reproduce
