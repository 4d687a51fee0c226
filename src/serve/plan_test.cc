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

model::WeightFacts weights(uint64_t bytes) { return {.bytes = bytes, .format = "bf16"}; }

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
