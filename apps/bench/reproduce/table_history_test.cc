#include "apps/bench/reproduce/table_history.h"

#include <gtest/gtest.h>

#include <sstream>

#include "apps/bench/history/trend.h"

namespace bulkhead::apps::reproduce {
namespace {

TEST(TableHistory, EveryRatioIsAFigureAndNothingElseIs) {
  std::ostringstream out;
  Table table(out);
  table.add(ratio_row("+55 %", "mini-G, decode of 1", {1.3, 1.2, 1.4}, 1.3));
  table.add(fact_row("a", "b", true, "yes", "yes"));
  table.add(ratio_row("+21 %", "mini-G, decode of 8", {1.1, 1.0, 1.2}, std::nullopt));
  RunFacts facts;
  facts.isa = "avx512";
  facts.threads = 2;
  const std::vector<HistoryEntry> entries = table_history(table, facts, false, "abc");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].bench, "reproduce");
  EXPECT_EQ(entries[0].figure, "+55 % (mini-G, decode of 1)");
  EXPECT_EQ(entries[0].median, 1.3);
  EXPECT_EQ(entries[0].isa, "avx512");
  EXPECT_EQ(entries[0].commit, "abc");
  EXPECT_EQ(entries[0].settings, "2 threads");
  EXPECT_EQ(higher_is_better(entries[0].unit), true);
  EXPECT_EQ(entries[1].median, 1.1);
  EXPECT_EQ(table_history(table, facts, true, "abc")[0].settings, "2 threads, quick")
      << "never compared with a run in full";
}

}  // namespace
}  // namespace bulkhead::apps::reproduce
