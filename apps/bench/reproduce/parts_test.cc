#include "apps/bench/reproduce/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::apps::reproduce {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ReproduceOptions only(std::vector<std::string> parts) {
  ReproduceOptions options;
  options.only = std::move(parts);
  return options;
}

TEST(Parts, ARunHasAllOfThemUnlessSomeAreNamed) {
  for (const char* part : kReproduceParts) EXPECT_TRUE(takes_part({}, part)) << part;
  EXPECT_TRUE(takes_part(only({"sizes", "caches"}), "caches"));
  EXPECT_FALSE(takes_part(only({"sizes", "caches"}), "weights"));
}

TEST(Parts, OnlyTheModelsOfTheRunAreAskedFor) {
  EXPECT_THAT(models_to_load({}), ElementsAre("mini-G", "mini-K", "mini-L", "tiny-moe"));
  EXPECT_THAT(models_to_load(only({"sizes"})), IsEmpty());
  EXPECT_THAT(models_to_load(only({"caches"})), ElementsAre("mini-K", "mini-L"));
  EXPECT_THAT(models_to_load(only({"weights"})), ElementsAre("mini-G"));
  EXPECT_THAT(models_to_load(only({"deployments"})), ElementsAre("mini-G", "mini-K"));
  EXPECT_THAT(models_to_load(only({"integrity"})), ElementsAre("mini-K", "tiny-moe"));
  ReproduceOptions quick;
  quick.quick = true;
  EXPECT_THAT(models_to_load(quick), ElementsAre("nano", "nano-L"));
}

TEST(Parts, AnEstimateGrowsWithRoundsAndShrinksWithTheMachinesPeak) {
  ReproduceOptions options;
  const double usual = seconds_of_run(options, 200e9);
  EXPECT_LT(seconds_of_run(options, 2000e9), usual);
  options.rounds *= 2;
  EXPECT_GT(seconds_of_run(options, 200e9), usual);
  EXPECT_EQ(seconds_of_run(only({"sizes"}), 200e9), 0.0);
}

TEST(Parts, TheIntegrityPartTakesTheSecondsItIsGiven) {
  ReproduceOptions options = only({"integrity"});
  const double usual = seconds_of_run(options, 200e9);
  options.seconds += 100.0;
  EXPECT_DOUBLE_EQ(seconds_of_run(options, 200e9), usual + 200.0) << "for each of two models";
}

TEST(Parts, TheEstimateNamesThePartsOfTheRun) {
  const std::string text = estimate_text(only({"integrity"}), 200e9);
  EXPECT_THAT(text, HasSubstr("integrity "));
  EXPECT_THAT(text, HasSubstr(": about "));
  EXPECT_THAT(text, Not(HasSubstr("weights")));
}

}  // namespace
}  // namespace bulkhead::apps::reproduce
