#include "telemetry/metrics.h"

#include <gtest/gtest.h>

namespace bulkhead::telemetry {
namespace {

TEST(Metrics, CountersCarryCommonAndOwnLabels) {
  Registry registry(Labels{{"model_name", "m"}});
  registry.counter("a_total", "A.", {{"cause", "x\"y"}}).add(3);
  EXPECT_EQ(registry.expose(),
            "# HELP a_total A.\n# TYPE a_total counter\n"
            "a_total{model_name=\"m\",cause=\"x\\\"y\"} 3\n");
}

TEST(Metrics, HistogramBucketsAreCumulative) {
  Registry registry;
  Histogram& histogram = registry.histogram("h", "H.", {1, 2});
  for (const double value : {0.5, 1.0, 1.5, 9.0}) histogram.observe(value);
  EXPECT_EQ(registry.expose(),
            "# HELP h H.\n# TYPE h histogram\n"
            "h_bucket{le=\"1\"} 2\nh_bucket{le=\"2\"} 3\nh_bucket{le=\"+Inf\"} 4\n"
            "h_sum 12\nh_count 4\n");
}

TEST(Metrics, SamplesOfOneNameStandTogether) {
  Registry registry;
  registry.counter("a", "A.", {{"k", "1"}});
  registry.gauge("b", "B.", [] { return 2.5; });
  registry.counter("a", "A.", {{"k", "2"}});
  EXPECT_EQ(registry.expose(),
            "# HELP a A.\n# TYPE a counter\na{k=\"1\"} 0\na{k=\"2\"} 0\n"
            "# HELP b B.\n# TYPE b gauge\nb 2.5\n");
}

TEST(Metrics, ACountThatSomebodyElseKeepsIsACounter) {
  Registry registry;
  registry.counter("a_total", "A.", [] { return 7.0; });
  registry.alias("b_total", "a_total");
  EXPECT_EQ(registry.expose(),
            "# HELP a_total A.\n# TYPE a_total counter\na_total 7\n"
            "# HELP b_total A.\n# TYPE b_total counter\nb_total 7\n");
}

TEST(Metrics, AnAliasShowsTheSameFiguresUnderAnotherName) {
  Registry registry;
  Counter& counter = registry.counter("a", "A.", {{"k", "1"}});
  registry.alias("b", "a", {{"stage", "s"}});
  counter.add(2);
  EXPECT_EQ(registry.expose(),
            "# HELP a A.\n# TYPE a counter\na{k=\"1\"} 2\n"
            "# HELP b A.\n# TYPE b counter\nb{k=\"1\",stage=\"s\"} 2\n");
}

}  // namespace
}  // namespace bulkhead::telemetry
