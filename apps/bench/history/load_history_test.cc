#include "apps/bench/history/load_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/bench/history/machine.h"
#include "apps/bench/history/trend.h"

namespace bulkhead::apps {
namespace {

BenchReport report_of_one() {
  BenchReport report;
  report.model = "m";
  report.completed = 1;
  report.input_tokens = 100;
  report.cached_tokens = 25;
  report.output_per_s = 12.5;
  report.itl_ms.count = 3;
  return report;
}

std::vector<std::string> names_of(const std::vector<HistoryEntry>& entries) {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const HistoryEntry& entry : entries) names.push_back(entry.figure);
  return names;
}

TEST(LoadHistory, EveryFigureHasItsLineAndAUnitThatIsJudged) {
  BenchReport report = report_of_one();
  report.bounds.ttft_ms = 5.0;
  report.replay = ReplayFacts{};
  BenchServeOptions options;
  options.concurrency = 4;
  const HistoryEntry of = load_entry(options, report, "bulkhead", "avx2", "abc");
  EXPECT_EQ(of.bench, "replay");
  EXPECT_EQ(of.model, "m");
  EXPECT_EQ(of.engine, "bulkhead");
  EXPECT_EQ(of.isa, "avx2");
  EXPECT_EQ(of.commit, "abc");
  EXPECT_EQ(of.machine, machine_class());
  const std::vector<HistoryEntry> entries = load_figures(of, report);
  EXPECT_THAT(names_of(entries),
              ::testing::ElementsAre("requests", "output", "TTFT p50", "TTFT p99", "ITL p50",
                                     "ITL p99", "E2E p50", "goodput", "prefix hits"));
  EXPECT_EQ(entries[1].median, 12.5);
  EXPECT_EQ(entries.back().median, 25.0);
  for (const HistoryEntry& entry : entries) {
    EXPECT_TRUE(higher_is_better(entry.unit).has_value()) << entry.unit;
  }
}

TEST(LoadHistory, AFailedRequestLeavesNoFigures) {
  BenchReport report = report_of_one();
  report.failures["timeout"] = 1;
  EXPECT_TRUE(load_figures({}, report).empty());
}

TEST(LoadHistory, RunsOfOtherSettingsAreNotCompared) {
  const auto settings = [](const BenchServeOptions& options) {
    return load_entry(options, report_of_one(), "", "", "c").settings;
  };
  BenchServeOptions options;
  EXPECT_EQ(settings(options), "64 requests, 256 + 64 tokens");
  options.concurrency = 8;
  options.rate = 2.5;
  options.prefix_tokens = 32;
  EXPECT_EQ(settings(options),
            "64 requests, 8 at once, 2.5 a second, burstiness 1, 256 + 64 tokens, prefix 32 of 1");
  options.dataset = "/some/where/prompts.jsonl";
  EXPECT_EQ(settings(options), "64 requests, 8 at once, 2.5 a second, burstiness 1, prompts.jsonl");
  BenchReport report = report_of_one();
  report.replay = ReplayFacts{};
  report.replay->trace = "/a/t.csv";
  report.replay->length_scale = 16;
  report.replay->cache = CacheShape{.pages = 9, .page_tokens = 64};
  EXPECT_EQ(load_entry({}, report, "", "", "c").settings,
            "64 requests, t.csv from row 0, lengths / 16, times / 1, 9 pages of 64");
}

}  // namespace
}  // namespace bulkhead::apps
