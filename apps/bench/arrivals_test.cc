#include "apps/bench/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace bulkhead::apps {
namespace {

struct Gaps {
  double mean = 0.0;
  double variation = 0.0;  // standard deviation by the mean
};

Gaps gaps_of(const std::vector<double>& times) {
  const auto count = static_cast<double>(times.size() - 1);
  Gaps gaps;
  gaps.mean = times.back() / count;
  double squares = 0.0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double off = times[i] - times[i - 1] - gaps.mean;
    squares += off * off;
  }
  gaps.variation = std::sqrt(squares / count) / gaps.mean;
  return gaps;
}

TEST(Arrivals, StartAtZeroAndNeverGoBack) {
  const std::vector<double> times = arrival_times(1000, 5.0, 0.5, 3);
  ASSERT_EQ(times.size(), 1000u);
  EXPECT_EQ(times.front(), 0.0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

TEST(Arrivals, TheSeedDecides) {
  EXPECT_EQ(arrival_times(100, 5.0, 1.0, 3), arrival_times(100, 5.0, 1.0, 3));
  EXPECT_NE(arrival_times(100, 5.0, 1.0, 3), arrival_times(100, 5.0, 1.0, 4));
}

// 20,000 gaps: the standard error of the mean is below 1.5 %, that of the variation below 4 %.
TEST(Arrivals, GapsHaveTheMeanOfTheRateAndTheSpreadOfTheirShape) {
  for (const double burstiness : {0.25, 0.5, 1.0, 2.0, 16.0}) {
    const Gaps gaps = gaps_of(arrival_times(20001, 8.0, burstiness, 7));
    EXPECT_NEAR(gaps.mean, 1.0 / 8.0, 0.06 / 8.0) << burstiness;
    EXPECT_NEAR(gaps.variation * std::sqrt(burstiness), 1.0, 0.1) << burstiness;
  }
}

// Of a Poisson process a share of e^-1 of the gaps is longer than the mean.
TEST(Arrivals, APoissonProcessForgets) {
  const std::vector<double> times = arrival_times(20001, 1.0, 1.0, 11);
  int longer = 0;
  for (size_t i = 1; i < times.size(); ++i) longer += times[i] - times[i - 1] > 1.0;
  EXPECT_NEAR(longer / 20000.0, std::exp(-1.0), 0.015);
}

TEST(Arrivals, NoRequestsHaveNoTimes) { EXPECT_TRUE(arrival_times(0, 1.0, 1.0, 1).empty()); }

}  // namespace
}  // namespace bulkhead::apps
