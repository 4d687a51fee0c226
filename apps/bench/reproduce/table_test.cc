#include "apps/bench/reproduce/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <sstream>
#include <string>

namespace bulkhead::apps {
namespace {

using ::testing::EndsWith;

TEST(ReproduceTable, ARatioHoldsFromItsBoundOnAndWithoutOneIsReported) {
  const kernels::Spread ratio = {.median = 1.3, .p10 = 1.2, .p90 = 1.4};
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, 1.3).verdict, Verdict::kHolds);
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, 1.31).verdict, Verdict::kFallsShort);
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, std::nullopt).verdict, Verdict::kReported);
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, 1.3).result, "1.30x [1.20..1.40]");
}

TEST(ReproduceTable, OneRowThatFallsShortSpoilsTheRun) {
  std::ostringstream out;
  Table table(out);
  EXPECT_TRUE(table.all_hold());
  table.add(fact_row("a", "b", true, "yes", "yes"));
  table.add(Row{});
  EXPECT_TRUE(table.all_hold()) << "a reported row is no failure";
  table.add(fact_row("a", "b", false, "no", "yes"));
  EXPECT_FALSE(table.all_hold());
  table.add(fact_row("c", "d", true, "yes", "yes"));
  EXPECT_FALSE(table.all_hold()) << "what holds makes up for nothing";
}

// What a stream was told until it was last flushed.
class Flushed : public std::stringbuf {
 public:
  const std::string& text() const { return text_; }

 private:
  int sync() override {
    text_ = str();
    return 0;
  }
  std::string text_;
};

TEST(ReproduceTable, ARowIsToReadBeforeTheNextIsMeasured) {
  Flushed buffer;
  std::ostream out(&buffer);
  Table table(out);
  table.print_head();
  EXPECT_THAT(buffer.text(), EndsWith("| verdict |\n|---|---|---|---|---|\n"));
  table.add(fact_row("a", "b", false, "no", "yes"));
  EXPECT_THAT(buffer.text(), EndsWith("|\n| a | b | no | yes | **falls short** |\n"));
  Row row;
  row.published = "c";
  row.note = "a tie";
  table.add(row);
  EXPECT_THAT(buffer.text(), EndsWith("short** |\n| c |  |  | - | reported: a tie |\n"));
}

TEST(ReproduceTable, RatiosAreOfPairsRoundByRound) {
  // The machine was half as fast in the second round; the pairs do not see it.
  const kernels::Spread ratio = ratio_of({2.0, 4.0, 2.0}, {1.0, 2.0, 1.0});
  EXPECT_DOUBLE_EQ(ratio.median, 2.0);
  EXPECT_DOUBLE_EQ(ratio.p90, 2.0);
}

TEST(ReproduceTable, BoundsAreThoseOfTheKindOfMachine) {
  const Bounds tiles = bounds_of(device::Isa::kAmx);
  EXPECT_EQ(tiles.latent_peak, 1.41);
  EXPECT_EQ(tiles.int4_decode[0], 1.55);
  EXPECT_FALSE(tiles.int8_decode[0].has_value());
  EXPECT_EQ(tiles.weights_context, 1024);
  for (const device::Isa isa : {device::Isa::kAvx2, device::Isa::kAvx512}) {
    EXPECT_FALSE(bounds_of(isa).latent_peak.has_value()) << "bound by arithmetic there";
    EXPECT_EQ(bounds_of(isa).grouped_peak, 1.15);
    EXPECT_EQ(bounds_of(isa).int4_decode[2], 0.97);
    EXPECT_EQ(bounds_of(isa).int8_decode[0], 1.5);
  }
}

TEST(Bounds, OfSpeedsAreOfTheDefaultContextAndNotOfAQuickRun) {
  ReproduceOptions options;
  EXPECT_EQ(speed_bound(options, 1.5), 1.5);
  EXPECT_EQ(context_bound(options, 1.5), 1.5);
  EXPECT_EQ(context_bound(options, std::nullopt), std::nullopt);
  options.context = 4096;
  EXPECT_EQ(speed_bound(options, 1.5), 1.5);
  EXPECT_EQ(context_bound(options, 1.5), std::nullopt);
  options = {};
  options.quick = true;
  EXPECT_EQ(speed_bound(options, 1.5), std::nullopt);
  EXPECT_EQ(context_bound(options, 1.5), std::nullopt);
}

}  // namespace
}  // namespace bulkhead::apps
