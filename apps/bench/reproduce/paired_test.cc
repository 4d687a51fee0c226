#include "apps/bench/reproduce/paired.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace bulkhead::apps::reproduce {
namespace {

// Tables of the sign test give the ranks 2, 6 and 40 of 10, 20 and 100 values.
TEST(SignInterval, HasTheRanksOfTheTables) {
  EXPECT_EQ(outside_sign_interval(5), 0u) << "too few to leave any out";
  EXPECT_EQ(outside_sign_interval(6), 0u);
  EXPECT_EQ(outside_sign_interval(10), 1u);
  EXPECT_EQ(outside_sign_interval(20), 5u);
  EXPECT_EQ(outside_sign_interval(100), 39u);
  EXPECT_EQ(outside_sign_interval(1), 0u);
}

TEST(SignInterval, OfManyValuesIsThatOfTheNormalDistribution) {
  const double count = 20'000;
  const double expected = count / 2 - 1.96 * std::sqrt(count) / 2;
  EXPECT_NEAR(static_cast<double>(outside_sign_interval(20'000)), expected, 2.0);
}

TEST(MedianInterval, OneWildValueMovesNothing) {
  std::vector<double> values;
  for (int i = 1; i <= 9; ++i) values.push_back(i);
  values.push_back(1e9);
  const Interval interval = median_interval(values);
  EXPECT_DOUBLE_EQ(interval.middle, 5.5);
  EXPECT_DOUBLE_EQ(interval.low, 2.0);
  EXPECT_DOUBLE_EQ(interval.high, 9.0);
}

// Noise of every pair's own, beside which the difference is small.
struct Pairs {
  std::vector<double> plain;
  std::vector<double> changed;
  std::vector<double> shares;
};
Pairs pairs_of(size_t count, double cost, uint64_t seed) {
  Pairs out;
  base::Rng rng(seed);
  for (size_t i = 0; i < count; ++i) {
    const double weather = 1.0 + rng.unit();
    out.plain.push_back(weather * (1.0 + 0.02 * rng.unit()));
    out.changed.push_back(weather * (1.0 + 0.02 * rng.unit()) * (1.0 + cost));
    out.shares.push_back(out.changed.back() / out.plain.back() - 1.0);
  }
  return out;
}

TEST(MedianInterval, HoldsTheTruthInAboutNinetyFiveRunsOfAHundred) {
  int held = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Interval interval = median_interval(pairs_of(200, 0.001, seed).shares);
    held += interval.low <= 0.001 && 0.001 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(held, 368);
  EXPECT_LE(held, 397) << "an interval that always holds it says nothing";
}

TEST(MedianInterval, MorePairsShowWhatNoiseHid) {
  EXPECT_LT(median_interval(pairs_of(40, 0.002, 1).shares).low, 0.0);
  EXPECT_GT(median_interval(pairs_of(20'000, 0.002, 1).shares).low, 0.0015);
}

TEST(QuantileGrowth, OfTheSameSeriesIsNothingAndOfALargerOneItsShare) {
  const Pairs pairs = pairs_of(500, 0.0, 3);
  const Interval same = quantile_growth(pairs.plain, pairs.plain, 0.99);
  EXPECT_EQ(same.middle, 0.0);
  EXPECT_EQ(same.low, 0.0);
  EXPECT_EQ(same.high, 0.0);
  std::vector<double> more = pairs.plain;
  for (double& value : more) value *= 1.25;
  const Interval growth = quantile_growth(pairs.plain, more, 0.99);
  EXPECT_NEAR(growth.middle, 0.25, 1e-12);
  EXPECT_NEAR(growth.low, 0.25, 1e-12);
  EXPECT_NEAR(growth.high, 0.25, 1e-12);
}

// One storm in all the series, over one arm more than over the other.
TEST(QuantileGrowth, OneStormIsOneObservationAndNotMany) {
  Pairs pairs = pairs_of(900, 0.0, 11);
  for (size_t i = 400; i < 420; ++i) {
    pairs.plain[i] *= 3.0;
    pairs.changed[i] *= 4.0;
  }
  const Interval growth = quantile_growth(pairs.plain, pairs.changed, 0.99);
  EXPECT_GT(growth.middle, 0.2);
  EXPECT_LT(growth.low, 0.02) << "a series without the storm is as likely";
}

TEST(QuantileGrowth, SaysTheSameTwiceAndItsIntervalHoldsTheEstimate) {
  const Pairs pairs = pairs_of(300, 0.01, 5);
  const Interval one = quantile_growth(pairs.plain, pairs.changed, 0.99);
  const Interval two = quantile_growth(pairs.plain, pairs.changed, 0.99);
  EXPECT_EQ(one.low, two.low);
  EXPECT_EQ(one.high, two.high);
  EXPECT_LE(one.low, one.middle);
  EXPECT_LE(one.middle, one.high);
  EXPECT_LT(one.low, one.high);
}

}  // namespace
}  // namespace bulkhead::apps::reproduce
