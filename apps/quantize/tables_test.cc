#include "apps/quantize/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/byte_source.h"
#include "model/checkpoint.h"
#include "model/side_files.h"
#include "model/testing/files.h"

namespace bulkhead::apps {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(QuantizeTables, APublicConfigurationShowsThePublishedSizes) {
  const auto source =
      model::open_file(model::testing::golden_directory() / "configs" / "glm-5.2.json");
  ASSERT_TRUE(source.ok());
  model::GenerationDefaults unused;
  const auto config = model::parse_config(*model::read_text(**source, 1 << 20), unused);
  ASSERT_TRUE(config.ok());
  const std::string table = config_table(*config, *model::parse_recipe("kimi"), 8);
  EXPECT_THAT(table, ContainsRegex("total .*703.72 GiB +419.94 GiB"));
  EXPECT_THAT(table, ContainsRegex("8 ranks, evenly .*87.97 GiB +52.49 GiB"));
}

TEST(QuantizeTables, ACheckpointShowsItsKindsBeforeAndAfterAndTheWorstTensors) {
  const auto checkpoint =
      model::Checkpoint::open(model::testing::golden_directory() / "models" / "glm4_moe");
  ASSERT_TRUE(checkpoint.ok());
  const auto plan =
      model::write::build_plan(*checkpoint, {.recipe = *model::parse_recipe("kimi-fp8")});
  ASSERT_TRUE(plan.ok());
  const std::string table = plan_table(*plan, 2);
  EXPECT_THAT(table, ContainsRegex("routed experts +to INT4"));
  EXPECT_THAT(table, ContainsRegex("shared experts +to FP8"));
  EXPECT_THAT(table, ContainsRegex("router +copied"));
  EXPECT_THAT(table, HasSubstr("in 1 file; "));
  std::vector<model::write::TensorError> errors(plan->jobs.size());
  for (size_t i = 0; i < errors.size(); ++i) {
    const bool anew = plan->jobs[i].action == model::write::Action::kInt4;
    if (anew) errors[i] = {.squares = 1.0, .squared = 1e-4, .amax_squared = 4e-4, .largest = 0.5};
  }
  const std::string report = error_tables(*plan, errors);
  EXPECT_THAT(report, ContainsRegex("routed experts +to INT4 +1.00 % +0.5 +50.00 %"));
  EXPECT_THAT(report, HasSubstr("the 10 tensors with the largest error"));
}

}  // namespace
}  // namespace bulkhead::apps
