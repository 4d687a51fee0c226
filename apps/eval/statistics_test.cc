// Expected values: scipy 1.17.1, binomtest(k, n).pvalue and .proportion_ci(method="wilson"), and
// Newcombe's method 10 written down a second time on top of the latter.
#include "apps/eval/statistics.h"

#include <gtest/gtest.h>

namespace bulkhead::apps::eval {
namespace {

void expect_interval(const Interval& interval, double low, double high) {
  EXPECT_NEAR(interval.low, low, 1e-12);
  EXPECT_NEAR(interval.high, high, 1e-12);
}

TEST(Statistics, AShareHasWilsonsInterval) {
  expect_interval(wilson(7, 20), 0.1811918241010821, 0.5671457233147637);
  expect_interval(wilson(633, 1319), 0.4530449305626357, 0.5068897995997761);
  expect_interval(wilson(0, 10), 0.0, 0.27753279986288926);
  expect_interval(wilson(10, 10), 0.7224672001371109, 1.0);
  expect_interval(wilson(0, 0), 0.0, 1.0);
}

TEST(Statistics, TheErrorOfAMeanIsThatOfTheSample) {
  EXPECT_NEAR(standard_error({1, 0, 1, 1, 0, 0, 1, 0, 1, 1}), 0.16329931618554522, 1e-15);
  EXPECT_EQ(standard_error({1}), 0.0);
  EXPECT_EQ(standard_error({}), 0.0);
}

TEST(Statistics, ADifferenceOfPairsHasNewcombesInterval) {
  // In the paper 36, 12, 2, 0 reads 0.0569 to 0.3404; there the first share is ours after.
  expect_interval(paired_difference({36, 2, 12, 0}), 0.05692958400323875, 0.3404276029749408);
  expect_interval(paired_difference({19, 0, 1, 30}), -0.035399565191747764, 0.07544673684411231);
  expect_interval(paired_difference({29, 0, 3, 18}), -0.01603455976399036, 0.13494137289163582);
  expect_interval(paired_difference({600, 20, 31, 668}), -0.0023562011151355353,
                  0.01902650509020027);
}

TEST(Statistics, WithoutAFlipTheIntervalKeepsAWidthAroundZero) {
  expect_interval(paired_difference({50, 0, 0, 50}), -0.019233693926800913, 0.019233693926800913);
  expect_interval(paired_difference({54, 0, 0, 0}), -0.06641358809089648, 0.06641358809089648);
}

TEST(Statistics, TheIntervalTurnsWithTheSides) {
  const Interval one = paired_difference({36, 2, 12, 0});
  const Interval other = paired_difference({36, 12, 2, 0});
  EXPECT_DOUBLE_EQ(one.low, -other.high);
  EXPECT_DOUBLE_EQ(one.high, -other.low);
  expect_interval(paired_difference({}), -1.0, 1.0);
}

TEST(Statistics, McNemarsTestIsTheBinomialOne) {
  EXPECT_NEAR(mcnemar_exact(3, 9), 0.14599609375, 1e-12);
  EXPECT_NEAR(mcnemar_exact(9, 3), 0.14599609375, 1e-12);
  EXPECT_NEAR(mcnemar_exact(0, 5), 0.0625, 1e-12);
  EXPECT_NEAR(mcnemar_exact(20, 31), 0.16077960181198847, 1e-12);
  EXPECT_NEAR(mcnemar_exact(120, 150), 0.07738939898021849, 1e-12);
  EXPECT_EQ(mcnemar_exact(1, 0), 1.0);
  EXPECT_EQ(mcnemar_exact(0, 0), 1.0);
  EXPECT_EQ(mcnemar_exact(7, 7), 1.0);
}

}  // namespace
}  // namespace bulkhead::apps::eval
