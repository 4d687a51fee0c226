#include "apps/bench/statistics.h"

#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

TEST(Statistics, PercentilesInterpolateBetweenNeighbours) {
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(percentile(values, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(percentile(values, 1.0), 4.0);
}

TEST(Statistics, OneValueIsEveryPercentile) {
  for (const double share : {0.0, 0.5, 0.99, 1.0}) EXPECT_DOUBLE_EQ(percentile({7}, share), 7.0);
}

TEST(Statistics, NothingMeasuredIsZeroAndSaysSo) {
  EXPECT_DOUBLE_EQ(percentile({}, 0.5), 0.0);
  const Summary summary = summarize({});
  EXPECT_EQ(summary.count, 0u);
  EXPECT_DOUBLE_EQ(summary.max, 0.0);
}

TEST(Statistics, SummaryDoesNotCareForTheOrder) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const Summary summary = summarize(values);
  EXPECT_EQ(summary.count, 101u);
  EXPECT_DOUBLE_EQ(summary.mean, 50.0);
  EXPECT_DOUBLE_EQ(summary.p50, 50.0);
  EXPECT_DOUBLE_EQ(summary.p90, 90.0);
  EXPECT_DOUBLE_EQ(summary.p95, 95.0);
  EXPECT_DOUBLE_EQ(summary.p99, 99.0);
  EXPECT_DOUBLE_EQ(summary.max, 100.0);
}

}  // namespace
}  // namespace bulkhead::apps
