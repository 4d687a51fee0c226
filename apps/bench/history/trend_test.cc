#include "apps/bench/history/trend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

namespace bulkhead::apps {
namespace {

using ::testing::HasSubstr;

HistoryEntry entry_of(double value, const std::string& unit = "tokens/s") {
  HistoryEntry entry;
  entry.bench = "serve";
  entry.date = "d";
  entry.commit = "c";
  entry.machine = "one machine";
  entry.engine = "bulkhead";
  set_figure(entry, "decode 8", unit, value);
  return entry;
}

std::vector<HistoryEntry> history_of(std::initializer_list<double> values,
                                     const std::string& unit = "tokens/s") {
  std::vector<HistoryEntry> entries;
  entries.reserve(values.size());
  for (const double value : values) entries.push_back(entry_of(value, unit));
  return entries;
}

Standing standing_of(std::initializer_list<double> values, const std::string& unit = "tokens/s") {
  const std::vector<Trend> trends = trends_of(history_of(values, unit));
  EXPECT_EQ(trends.size(), 1u);
  return trends.at(0).standing;
}

TEST(Trend, AFlatHistoryIsSteady) {
  EXPECT_EQ(standing_of({100, 100, 100, 100}), Standing::kSteady);
  EXPECT_EQ(standing_of({100, 101, 99, 91}), Standing::kSteady) << "9 % is noise";
  EXPECT_EQ(standing_of({100, 101, 99, 90}), Standing::kSteady) << "the margin itself still is";
}

TEST(Trend, AFallBeyondATenthIsSeen) {
  EXPECT_EQ(standing_of({100, 101, 99, 89}), Standing::kFell);
  EXPECT_EQ(standing_of({100, 101, 99, 111}), Standing::kBetter);
  const std::vector<Trend> trends = trends_of(history_of({100, 101, 99, 89}));
  EXPECT_EQ(falls_in(trends), 1u);
  EXPECT_DOUBLE_EQ(trends[0].earlier, 100.0);
  EXPECT_DOUBLE_EQ(trends[0].margin, 10.0);
}

TEST(Trend, ANoisyPastAsksForMore) {
  // Median 100, distances 0 20 20 30 30: three deviations are 3 x 1.4826 x 20 = 88.956.
  EXPECT_EQ(standing_of({100, 80, 120, 70, 130, 12}), Standing::kSteady);
  EXPECT_EQ(standing_of({100, 80, 120, 70, 130, 11}), Standing::kFell);
}

TEST(Trend, OneOutlierOfThePastMovesNothing) {
  EXPECT_EQ(standing_of({100, 100, 5000, 100, 100, 89}), Standing::kFell);
}

TEST(Trend, WithTooFewEarlierValuesNothingIsJudged) {
  EXPECT_EQ(standing_of({100}), Standing::kTooFew);
  EXPECT_EQ(standing_of({100, 1}), Standing::kTooFew);
  EXPECT_EQ(standing_of({100, 100, 1}), Standing::kTooFew);
  EXPECT_EQ(standing_of({100, 100, 100, 1}), Standing::kFell);
}

TEST(Trend, OfTimesAndMemoryLessIsBetter) {
  EXPECT_EQ(standing_of({100, 100, 100, 111}, "ms"), Standing::kFell);
  EXPECT_EQ(standing_of({100, 100, 100, 89}, "ms"), Standing::kBetter);
  EXPECT_EQ(standing_of({100, 100, 100, 111}, "MiB"), Standing::kFell);
  EXPECT_EQ(standing_of({0, 0, 0, 1}, "answers changed"), Standing::kFell);
  EXPECT_EQ(standing_of({0, 0, 0, 0}, "answers changed"), Standing::kSteady);
}

TEST(Trend, WhichWayIsBetterFollowsFromTheUnit) {
  for (const char* unit : {"tokens/s", "req/s", "GFLOP/s", "GB/s", "x", "%", "of peak"}) {
    EXPECT_EQ(higher_is_better(unit), true) << unit;
  }
  for (const char* unit : {"s", "ms", "us", "ns", "bytes", "GiB"}) {
    EXPECT_EQ(higher_is_better(unit), false) << unit;
  }
  EXPECT_FALSE(higher_is_better("apples").has_value());
  EXPECT_EQ(standing_of({100, 100, 100, 1}, "apples"), Standing::kUnknownUnit);
}

TEST(Trend, AnotherMachineClassIsAnotherHistory) {
  std::vector<HistoryEntry> entries = history_of({100, 100, 100, 1});
  entries.back().machine = "a slower machine";
  const std::vector<Trend> trends = trends_of(entries);
  ASSERT_EQ(trends.size(), 2u);
  EXPECT_EQ(trends[0].standing, Standing::kTooFew);
  EXPECT_EQ(trends[1].standing, Standing::kTooFew);
  EXPECT_EQ(falls_in(trends), 0u);
}

TEST(Trend, EverythingElseThatTellsFiguresApartDoes) {
  for (std::string HistoryEntry::* field :
       {&HistoryEntry::bench, &HistoryEntry::model, &HistoryEntry::isa, &HistoryEntry::engine,
        &HistoryEntry::settings, &HistoryEntry::figure, &HistoryEntry::unit}) {
    std::vector<HistoryEntry> entries = history_of({100, 100, 100, 1});
    entries.back().*field = "other";
    EXPECT_EQ(trends_of(entries).size(), 2u);
  }
  std::vector<HistoryEntry> entries = history_of({100, 100, 100, 1});
  entries.back().commit = "other";
  entries.back().date = "other";
  EXPECT_EQ(trends_of(entries).size(), 1u) << "a commit is what is judged";
}

TEST(Trend, ASparklineSpansItsOwnRange) {
  EXPECT_EQ(sparkline({}), "");
  EXPECT_EQ(sparkline({0, 7}), "▁█");
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline({5, 5}), "▅▅");
  EXPECT_EQ(sparkline({9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}), "▁▁▁▁▁▁▁▁▁▁▁█")
      << "the last twelve";
}

TEST(Trend, TheTableHasARowForEachFigureAndSaysTheRule) {
  std::vector<HistoryEntry> entries = history_of({100, 102, 98, 50});
  entries.push_back(entry_of(3, "ms"));
  entries.back().machine = "another machine";
  const std::string table = trend_table(trends_of(entries));
  EXPECT_THAT(table, HasSubstr("one machine\n"));
  EXPECT_THAT(table, HasSubstr("another machine\n"));
  EXPECT_THAT(table, HasSubstr("serve, bulkhead: decode 8     4        100         50   0.50x"));
  EXPECT_THAT(table, HasSubstr("FELL         ██▇▁\n"));
  EXPECT_THAT(table, HasSubstr("1 of 2 figures fell"));
  EXPECT_THAT(trend_table({}), HasSubstr("0 of 0 figures fell"));
}

}  // namespace
}  // namespace bulkhead::apps
