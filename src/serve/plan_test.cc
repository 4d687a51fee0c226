#include "serve/plan.h"

#include <gtest/gtest.h>

namespace bulkhead::serve {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

device::CpuFacts machine() {
  device::CpuFacts cpu;
  cpu.model_name = "test";
  cpu.logical_cpus = 2;
  cpu.memory_bytes = 24 * kGiB;
  cpu.avx2_fma_f16c = true;
  return cpu;
}

// SmolLM2-135M: 30 layers, 3 kv heads of 64: 22.5 KiB a token.
model::ModelConfig smollm2() {
  model::ModelConfig config;
  config.layers = 30;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.context = 8192;
  return config;
}

model::WeightFacts weights(uint64_t bytes, const char* format = "bf16") {
  model::WeightFacts facts;
  facts.bytes = bytes;
  facts.format = format;
  facts.has_int4 = facts.format == "int4";
  return facts;
}

TEST(Plan, DefaultsAreTwoGibOfCacheAndTheModelsContext) {
  const auto plan = make_plan({}, smollm2(), weights(kGiB / 4), machine());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->threads, 2u);
  EXPECT_EQ(plan->isa, device::Isa::kAvx2);
  EXPECT_EQ(plan->context_tokens, 8192);
  EXPECT_EQ(plan->layout.token_bytes(), 30u * 3 * 64 * 2 * 2);
  EXPECT_LE(plan->cache_bytes, 2 * kGiB);
  EXPECT_GT(plan->cache_bytes, 2 * kGiB - plan->layout.page_bytes());
  EXPECT_EQ(plan->cache_tokens, plan->pages * plan->layout.page_tokens);
}

TEST(Plan, AForcedPathThatCannotRunIsRefusedByName) {
  ModelOptions options;
  options.isa = "amx";
  const auto plan = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().field, "--isa");
  EXPECT_NE(plan.error().message.find("avx2"), std::string::npos);
}

TEST(Plan, ContextFollowsASmallCacheAndSaysSo) {
  ModelOptions options;
  options.kv_cache_bytes = 32ull << 20;
  const auto plan = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->context_tokens, plan->cache_tokens);
  EXPECT_LT(plan->context_tokens, 8192);
  EXPECT_NE(plan->context_reason.find("8192"), std::string::npos);
}

TEST(Plan, AContextBeyondModelOrCacheIsRefusedWithTheValueThatWorks) {
  ModelOptions options;
  options.context_tokens = 8193;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--context-length");
  options.context_tokens = 8192;
  options.kv_cache_bytes = 32ull << 20;
  const auto plan = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().field, "--kv-cache-memory");
  EXPECT_NE(plan.error().message.find("180.0 MiB"), std::string::npos) << plan.error().message;
}

TEST(Plan, ACacheSmallerThanAPageOrLargerThanMemoryIsRefused) {
  ModelOptions options;
  options.kv_cache_bytes = 1024;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--kv-cache-memory");
  options.kv_cache_bytes = 23 * kGiB;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--kv-cache-memory");
  EXPECT_FALSE(make_plan({}, smollm2(), weights(23 * kGiB), machine()).ok());
}

ModelOptions split() {
  ModelOptions options;
  options.placement = Placement::kSplit;
  return options;
}

TEST(Plan, InTheSplitPlacementEachPoolHasHalfOfTheDefault) {
  const auto plan = make_plan(split(), smollm2(), weights(kGiB / 4), machine());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(plan->prefill.has_value());
  EXPECT_TRUE(plan->weights_shared);
  for (const PoolPlan* pool : {static_cast<const PoolPlan*>(&*plan), &*plan->prefill}) {
    EXPECT_LE(pool->cache_bytes, kGiB);
    EXPECT_GT(pool->cache_bytes, kGiB - pool->layout.page_bytes());
    EXPECT_EQ(pool->cache_tokens, pool->pages * 64);
  }
  EXPECT_FALSE(make_plan({}, smollm2(), weights(kGiB / 4), machine())->prefill.has_value());
}

TEST(Plan, TheContextFitsBothPoolsOrThePoolIsNamed) {
  ModelOptions options = split();
  options.prefill.kv_cache_bytes = 32ull << 20;
  const auto plan = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->context_tokens, plan->prefill->cache_tokens);
  EXPECT_NE(plan->context_reason.find("prefill pool"), std::string::npos);
  options.context_tokens = 4096;
  const auto small = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().field, "--prefill.kv-cache-memory");
  options.prefill.kv_cache_bytes = kGiB;
  options.decode.kv_cache_bytes = 32ull << 20;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--decode.kv-cache-memory");
}

TEST(Plan, BothCachesTogetherFitTheMemory) {
  ModelOptions options = split();
  options.decode.kv_cache_bytes = 18 * kGiB;
  const auto rest = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_GT(rest->prefill->cache_tokens, 8192) << "the default takes what is left";
  options.prefill.kv_cache_bytes = 2 * kGiB;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--prefill.kv-cache-memory");
}

TEST(Plan, OptionsWithoutEffectInThePlacementAreRefused) {
  ModelOptions options = split();
  options.kv_cache_bytes = kGiB;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--kv-cache-memory");
  options = {};
  options.decode.kv_cache_bytes = kGiB;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--decode.kv-cache-memory");
  options = {};
  options.prefill.weights = model::WeightRecipe{};
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field,
            "--prefill.weights");
}

TEST(Plan, WeightsAreThereOnceWhereBothPoolsWantTheSame) {
  ModelOptions options = split();
  options.prefill.weights = *model::parse_recipe("bf16");
  const auto same = make_plan(options, smollm2(), weights(kGiB), machine(), weights(kGiB));
  ASSERT_TRUE(same.ok());
  EXPECT_TRUE(same->weights_shared) << "as stored is bf16 too";
  EXPECT_EQ(same->prefill->weights_text, "bf16 (--prefill.weights)");
  EXPECT_EQ(same->weights_text, "bf16 (as stored)");
  options.decode.weights = *model::parse_recipe("int4");
  const auto two =
      make_plan(options, smollm2(), weights(kGiB / 4, "int4"), machine(), weights(kGiB));
  ASSERT_TRUE(two.ok());
  EXPECT_FALSE(two->weights_shared);
  EXPECT_EQ(two->weight_bytes, kGiB / 4);
  EXPECT_EQ(two->prefill->weight_bytes, kGiB);
  EXPECT_FALSE(
      make_plan(options, smollm2(), weights(12 * kGiB), machine(), weights(12 * kGiB, "fp8")).ok())
      << "both do not fit";
}

TEST(Plan, ActivationsInBytesAreRefusedByNameWhereAPoolHasNoInt4) {
  constexpr auto kInt8 = kernels::Activations::kInt8;
  ModelOptions options;
  options.activations = kInt8;
  const auto refused = make_plan(options, smollm2(), weights(kGiB, "fp8"), machine());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "--activations");
  EXPECT_EQ(refused.error().message,
            "--activations int8 needs INT4 weights, and the recipe fp8 has none; give --weights "
            "int4, kimi or kimi-fp8, or --activations fp32");
  const auto plan = make_plan(options, smollm2(), weights(kGiB, "int4"), machine());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->activations, kInt8);
  EXPECT_EQ(plan->products(), "int4 x int8");

  options.placement = Placement::kSplit;
  const auto hybrid = [&options] {
    return make_plan(options, smollm2(), weights(kGiB, "int4"), machine(), weights(kGiB, "fp8"));
  };
  EXPECT_EQ(hybrid().error().field, "--prefill.activations") << "it has to be said of decode alone";
  options.activations = kernels::Activations::kFp32;
  options.decode.activations = kInt8;
  ASSERT_TRUE(hybrid().ok());
  EXPECT_EQ(hybrid()->activations, kInt8);
  EXPECT_EQ(hybrid()->prefill->activations, kernels::Activations::kFp32);
  options.placement = Placement::kShared;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB, "int4"), machine()).error().field,
            "--decode.activations")
      << "both pools are one";
}

TEST(Plan, PoolsThatDifferInActivationsDoNotShareADecoder) {
  ModelOptions options = split();
  options.activations = kernels::Activations::kInt8;
  const auto plan_of = [&options] {
    return make_plan(options, smollm2(), weights(kGiB, "int4"), machine());
  };
  ASSERT_TRUE(plan_of().ok()) << plan_of().error().message;
  EXPECT_TRUE(plan_of()->weights_shared);
  options.prefill.activations = kernels::Activations::kFp32;
  ASSERT_TRUE(plan_of().ok()) << plan_of().error().message;
  EXPECT_FALSE(plan_of()->weights_shared);
}

TEST(Plan, PagesAreConvertedFromBf16Alone) {
  ModelOptions options = split();
  options.decode.cache_format = kv::PageFormat::kFp8E4m3;
  const auto plan = make_plan(options, smollm2(), weights(kGiB), machine());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->layout.format, kv::PageFormat::kFp8E4m3);
  EXPECT_EQ(plan->prefill->layout.format, kv::PageFormat::kBf16);
  options.prefill.cache_format = kv::PageFormat::kFp8E4m3;
  EXPECT_TRUE(make_plan(options, smollm2(), weights(kGiB), machine()).ok());
  options.decode.cache_format = kv::PageFormat::kBf16;
  EXPECT_EQ(make_plan(options, smollm2(), weights(kGiB), machine()).error().field, "--prefill.kv");
}

TEST(Plan, TokenCountsNeverOverflow) {
  device::CpuFacts huge = machine();
  huge.memory_bytes = uint64_t{1} << 60;
  ModelOptions options;
  options.kv_cache_bytes = uint64_t{1} << 59;
  const auto plan = make_plan(options, smollm2(), weights(kGiB), huge);
  ASSERT_TRUE(plan.ok());
  EXPECT_GT(plan->cache_tokens, 0);
  EXPECT_EQ(plan->cache_tokens, plan->pages * plan->layout.page_tokens);
}

}  // namespace
}  // namespace bulkhead::serve
