#include "model/weight_recipe.h"

#include <gtest/gtest.h>

namespace bulkhead::model {
namespace {

using kernels::WeightFormat;

TEST(WeightRecipe, EveryPresetIsReadBackFromItsText) {
  for (const RecipePreset& preset : recipe_presets()) {
    const auto recipe = parse_recipe(preset.name);
    ASSERT_TRUE(recipe.ok()) << preset.name;
    EXPECT_EQ(*recipe, preset.recipe);
    EXPECT_EQ(recipe->text(), preset.name);
  }
}

TEST(WeightRecipe, KindsOverrideAPreset) {
  const auto recipe = parse_recipe("int4,attention=bf16,head=fp8");
  ASSERT_TRUE(recipe.ok());
  EXPECT_EQ(recipe->of(TensorKind::kRoutedExperts), WeightFormat::kInt4);
  EXPECT_EQ(recipe->of(TensorKind::kAttention), WeightFormat::kBf16);
  EXPECT_EQ(recipe->of(TensorKind::kHead), WeightFormat::kFp8);
  EXPECT_EQ(recipe->text(), "experts=int4,shared=int4,mlp=int4,head=fp8");
  EXPECT_EQ(*parse_recipe(recipe->text()), *recipe);
}

TEST(WeightRecipe, APresetWithAnotherHeadOrEmbeddingIsStillCalledByItsName) {
  for (const char* text :
       {"int4,head=int4", "fp8,head=fp8", "kimi,head=fp8", "head=int4",
        "int4,head=int4,embedding=int4", "kimi,embedding=fp8", "head=fp8,embedding=int4",
        "experts=int4,attention=int4,embedding=int4"}) {
    const auto recipe = parse_recipe(text);
    ASSERT_TRUE(recipe.ok()) << text;
    EXPECT_EQ(recipe->text(), text);
  }
}

TEST(WeightRecipe, WhatIsNotUnderstoodIsNamed) {
  for (const char* text :
       {"", "q4", "int4,fp8", "experts", "experts=int5", "router=fp8", "int4,"}) {
    const auto recipe = parse_recipe(text);
    ASSERT_FALSE(recipe.ok()) << text;
    EXPECT_NE(recipe.error().message.find("experts, shared, attention, mlp, head, embedding"),
              std::string::npos);
  }
}

TEST(WeightRecipe, WhatWeightsMeetIsSaidWhereItIsNotFp32) {
  EXPECT_EQ(products_text("kimi", kernels::Activations::kFp32), "kimi");
  EXPECT_EQ(products_text("kimi", kernels::Activations::kInt8), "kimi x int8");
}

}  // namespace
}  // namespace bulkhead::model
