#include "router/step_log.h"

#include <gtest/gtest.h>

#include <sstream>

#include "router/step_metrics.h"

namespace bulkhead::router {
namespace {

using std::chrono::milliseconds;
using wire::StepOutcome;

struct Bench {
  LogScene at(milliseconds now) {
    LogScene scene;
    scene.now = now;
    scene.running = 3;
    scene.queued = 2;
    scene.tokens_used = 640;
    scene.usage = 0.25;
    return scene;
  }
  bool wrote(const std::string& text) const { return out.str().find(text) != std::string::npos; }

  std::ostringstream out;
  base::Logger logger{out, base::LogFormat::kText, base::LogLevel::kInfo};
  StepLog log{&logger};
};

TEST(StepLog, SumsUpAboutASecondOfPrefill) {
  Bench bench;
  bench.log.admitted({96});
  bench.log.admitted({0});
  bench.log.prefilled({StepOutcome::kCommitted, 2, 300}, bench.at(milliseconds(1000)));
  bench.log.prefilled({StepOutcome::kCommitted, 1, 200}, bench.at(milliseconds(1999)));
  EXPECT_TRUE(bench.out.str().empty());
  bench.log.prefilled({StepOutcome::kCommitted, 1, 500}, bench.at(milliseconds(3000)));
  EXPECT_TRUE(
      bench.wrote("Prefill batch, #new-seq: 2, #new-token: 1000, #cached-token: 96, token "
                  "usage: 0.25, #running-req: 3, #queue-req: 2, input throughput "
                  "(token/s): 500.00"))
      << bench.out.str();
  bench.log.prefilled({StepOutcome::kCommitted, 1, 7}, bench.at(milliseconds(3001)));
  bench.log.prefilled({StepOutcome::kCommitted, 1, 3}, bench.at(milliseconds(4002)));
  EXPECT_TRUE(bench.wrote("#new-seq: 0, #new-token: 10, #cached-token: 0")) << bench.out.str();
}

TEST(StepLog, RoundsInWhichNothingRanAreNotSteps) {
  Bench bench;
  for (int second = 1; second < 5; ++second) {
    bench.log.decoded({StepOutcome::kCommitted, 0, 0}, bench.at(milliseconds(1000 * second)));
    bench.log.prefilled({StepOutcome::kCommitted, 0, 0}, bench.at(milliseconds(1000 * second)));
  }
  EXPECT_EQ(bench.out.str(), "");
}

// A pool that waits for pages on their way asks to be called again.
TEST(StepMetrics, CountStepsInWhichASequenceRan) {
  telemetry::Registry registry;
  StepMetrics metrics(registry, "decode");
  metrics.record({StepOutcome::kIdle, 0, 0}, milliseconds(1));
  metrics.record({StepOutcome::kCommitted, 0, 0}, milliseconds(1));
  metrics.record({StepOutcome::kFailed, 0, 0}, milliseconds(1));
  metrics.record({StepOutcome::kCommitted, 3, 3}, milliseconds(1));
  const std::string text = registry.expose();
  EXPECT_NE(text.find("bulkhead_step_seconds_count{pool=\"decode\"} 1\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("bulkhead_steps_failed_total{pool=\"decode\"} 1\n"), std::string::npos)
      << text;
}

TEST(StepLog, TellsTheGenerationRate) {
  Bench bench;
  for (int step = 0; step <= 10; ++step) {
    bench.log.decoded({StepOutcome::kCommitted, 4, 4}, bench.at(milliseconds(100 * step)));
  }
  EXPECT_TRUE(
      bench.wrote("Decode batch, #running-req: 4, #token: 640, token usage: 0.25, gen "
                  "throughput (token/s): 44.00, #queue-req: 2"))
      << bench.out.str();
}

TEST(StepLog, ForgetsTheRateOfLongAgo) {
  Bench bench;
  EXPECT_EQ(bench.log.decode_rate(milliseconds(0)), 0.0);
  for (int step = 0; step <= 10; ++step) {
    bench.log.decoded({StepOutcome::kCommitted, 4, 4}, bench.at(milliseconds(100 * step)));
  }
  EXPECT_DOUBLE_EQ(bench.log.decode_rate(milliseconds(3000)), 44.0);
  EXPECT_EQ(bench.log.decode_rate(milliseconds(60000)), 0.0);
}

TEST(StepLog, SaysNothingWhileNothingRunsOrNobodyListens) {
  Bench bench;
  bench.log.decoded({}, bench.at(milliseconds(0)));
  bench.log.decoded({}, bench.at(milliseconds(5000)));
  bench.log.prefilled({}, bench.at(milliseconds(9000)));
  EXPECT_TRUE(bench.out.str().empty());
  StepLog silent(nullptr);
  silent.decoded({StepOutcome::kCommitted, 1, 1}, bench.at(milliseconds(0)));
  silent.decoded({StepOutcome::kCommitted, 1, 1}, bench.at(milliseconds(9000)));
}

}  // namespace
}  // namespace bulkhead::router
