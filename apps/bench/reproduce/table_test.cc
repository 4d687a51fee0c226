#include "apps/bench/reproduce/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <ostream>
#include <sstream>
#include <string>

#include "apps/bench/reproduce/table_json.h"

namespace bulkhead::apps::reproduce {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReproduceTable, ARatioHoldsFromItsBoundOnAndWithoutOneIsReported) {
  const kernels::Spread ratio = {.median = 1.3, .p10 = 1.2, .p90 = 1.4};
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, 1.3).verdict, Verdict::kHolds);
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, 1.31).verdict, Verdict::kFallsShort);
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, std::nullopt).verdict, Verdict::kReported);
  EXPECT_EQ(ratio_row("+55 %", "decode", ratio, 1.3).result, "1.30x [1.20..1.40]");
}

TEST(ReproduceTable, AGainIsSoMuchLessAToken) {
  const kernels::Spread ratio = {.median = 1.41, .p10 = 1.25, .p90 = 2.0};
  const Row row = saving_row("30 %", "peaks", ratio, 1.25);
  EXPECT_EQ(row.result, "29 % less [20..50]");
  EXPECT_EQ(row.needed, ">= 20 % less");
  EXPECT_EQ(row.verdict, Verdict::kHolds);
  EXPECT_EQ(saving_row("30 %", "peaks", ratio, 1.5).verdict, Verdict::kFallsShort);
  EXPECT_EQ(saving_row("30 %", "peaks", ratio, std::nullopt).verdict, Verdict::kReported);
}

TEST(ReproduceTable, AShareHoldsUpToItsBound) {
  const kernels::Spread share = {.median = 0.0031, .p10 = 0.003, .p90 = 0.0042};
  EXPECT_EQ(share_row("a", "b", share, 0.01).verdict, Verdict::kHolds);
  EXPECT_EQ(share_row("a", "b", share, 0.0031).verdict, Verdict::kHolds);
  EXPECT_EQ(share_row("a", "b", share, 0.003).verdict, Verdict::kFallsShort);
  EXPECT_EQ(share_row("a", "b", share, std::nullopt).verdict, Verdict::kReported);
  EXPECT_EQ(share_row("a", "b", share, 0.002).result, "0.31 % [0.3..0.42]");
  EXPECT_EQ(share_row("a", "b", {0.005, 0.005, 0.005}, 0.01).result, "0.5 %");
  EXPECT_EQ(share_row("a", "b", share, 0.002).needed, "<= 0.2 %");
}

TEST(ReproduceTable, ACostIsJudgedByPairsAndByItsOwnTime) {
  const auto verdict = [](Interval paired, double own) {
    return cost_row("a", "b", {paired, own, 100}, 0.002);
  };
  const Row clear = verdict({0.0005, -0.0005, 0.0015}, 0.0003);
  EXPECT_EQ(clear.verdict, Verdict::kHolds);
  EXPECT_THAT(clear.note, IsEmpty()) << "pairs show it, nothing else is needed";
  EXPECT_EQ(clear.result, "+0.05 % [-0.05..+0.15] of 100 pairs; its calls 0.03 %");
  const Row hidden = verdict({0.0005, -0.01, 0.011}, 0.0003);
  EXPECT_EQ(hidden.verdict, Verdict::kOpen) << "what noise hides is not shown to hold";
  EXPECT_THAT(hidden.note, HasSubstr("noise leaves the pairs open"));
  EXPECT_EQ(verdict({0.004, 0.0025, 0.005}, 0.0003).verdict, Verdict::kFallsShort)
      << "what the calls do to the rest of the step counts too";
  EXPECT_EQ(verdict({0.0, -0.01, 0.01}, 0.0021).verdict, Verdict::kFallsShort)
      << "noise hides no cost that the clock shows";
  EXPECT_EQ(cost_row("a", "b", {{0.5, 0.4, 0.6}, 0.5, 3}, std::nullopt).verdict,
            Verdict::kReported);
}

TEST(ReproduceTable, ADifferenceThatCopiesOfOneCodeHaveTooIsNotToldApart) {
  const auto row = [](Interval paired, double own) {
    return placement_row("a", "b", {paired, own, 100}, {0.0, -0.002, 0.003}, 0.0002);
  };
  const Row within = row({0.0025, 0.0015, 0.0035}, 0.0001);
  EXPECT_EQ(within.verdict, Verdict::kOpen);
  EXPECT_THAT(within.note, HasSubstr("not told apart"));
  EXPECT_THAT(within.result, EndsWith("copies of one code [-0.20..+0.30] %"));
  EXPECT_EQ(row({0.005, 0.004, 0.006}, 0.0001).verdict, Verdict::kFallsShort)
      << "more than placement explains";
  EXPECT_EQ(row({0.0, -0.001, 0.001}, 0.0003).verdict, Verdict::kFallsShort)
      << "placement hides no cost that the clock shows";
  EXPECT_EQ(row({-0.001, -0.002, 0.0}, 0.0001).verdict, Verdict::kHolds);
}

TEST(ReproduceTable, TheSlowEndIsJudgedByTheSlowStepsThemselvesAndByTheArmsApart) {
  const auto row = [](Interval apart, Interval together, size_t steps = 5000) {
    return tail_row("a", "b", {apart, together, steps}, 0.002);
  };
  const Interval noise = {-0.02, -0.1, 0.08};
  const Interval little = {0.0005, 0.0002, 0.0009};
  EXPECT_EQ(row(noise, little).verdict, Verdict::kHolds);
  EXPECT_THAT(row(noise, little).note, HasSubstr("noise leaves the arms apart open"));
  EXPECT_THAT(row({0.0, -0.001, 0.001}, little).note, IsEmpty());
  EXPECT_EQ(row(noise, {0.001, -0.001, 0.003}).verdict, Verdict::kOpen);
  EXPECT_EQ(row(noise, {0.004, 0.003, 0.005}).verdict, Verdict::kFallsShort);
  EXPECT_EQ(row({0.05, 0.02, 0.08}, little).verdict, Verdict::kFallsShort)
      << "what only slow steps pay counts too";
  EXPECT_EQ(row(noise, little, 60).verdict, Verdict::kOpen) << "a maximum is no percentile";
}

TEST(ReproduceTable, OneRowThatFallsShortSpoilsTheRun) {
  std::ostringstream out;
  Table table(out);
  EXPECT_TRUE(table.all_hold());
  table.add(fact_row("a", "b", true, "yes", "yes"));
  table.add(Row{});
  EXPECT_TRUE(table.all_hold()) << "a reported row is no failure";
  table.add(cost_row("a", "b", {{0.0, -0.01, 0.01}, 0.0, 100}, 0.002));
  EXPECT_TRUE(table.all_hold()) << "nor is an open one";
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

TEST(ReproduceTable, JsonHasRowsCurvesAndTheMachine) {
  std::ostringstream out;
  Table table(out);
  table.add(fact_row("705 -> 421", "planned", false, "1 \"GB\"", "within 1 %"));
  table.add(Curve{"caches", "mini-K", "FP8", {{8, {.median = 90.5, .p10 = 80.0, .p90 = 95.0}}}});
  RunFacts facts;
  facts.machine = "a processor";
  facts.threads = 2;
  const boost::json::value json = boost::json::parse(table_json(facts, table));
  EXPECT_EQ(json.at_pointer("/machine/processor").as_string(), "a processor");
  EXPECT_EQ(json.at_pointer("/machine/threads").as_int64(), 2);
  EXPECT_EQ(json.at_pointer("/rows/0/result").as_string(), "1 \"GB\"");
  EXPECT_EQ(json.at_pointer("/rows/0/verdict").as_string(), "falls short");
  EXPECT_EQ(json.at_pointer("/curves/0/name").as_string(), "FP8");
  EXPECT_EQ(json.at_pointer("/curves/0/points/0/requests").as_int64(), 8);
  EXPECT_EQ(json.at_pointer("/curves/0/points/0/tokens_per_s").as_double(), 90.5);
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
}  // namespace bulkhead::apps::reproduce
