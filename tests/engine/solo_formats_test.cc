// SOLO on real models in every format of weights, activations and cache, in one pool and in two:
// what a request gets among others, in a pool that is too small for all of them, is what it gets
// alone, and a prefix that was found in the cache gives what computing it gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "base/rng.h"
#include "model/testing/files.h"
#include "model/testing/runner.h"
#include "support/engine_stack.h"

namespace bulkhead {
namespace {

using testing::EngineStack;
using Tokens = std::vector<wire::TokenId>;

constexpr int32_t kVocabulary = 160;
constexpr int kRequests = 12;
constexpr model::StepLimits kLimits{.rows_max = 256, .logits_rows_max = 16, .slices_max = 16};

struct Formats {
  const char* model;  // of tests/golden/models
  const char* recipe;
  kv::PageFormat cache;
  // Of prefill in the split placement; null: the shared one.
  const char* prefill_recipe = nullptr;
  kv::PageFormat prefill_cache = kv::PageFormat::kBf16;
  kernels::Activations activations = kernels::Activations::kFp32;
  kernels::Activations prefill_activations = kernels::Activations::kFp32;
};

class SoloFormats : public ::testing::TestWithParam<Formats> {
 protected:
  void SetUp() override {
    const auto paths = model::testing::kernel_paths();
    const auto fast = std::ranges::find_if(
        paths, [](const auto& path) { return !path.tiles && path.name != "ref"; });
    if (fast == paths.end()) GTEST_SKIP() << "the reference path would take minutes";
    const auto load = [&](const char* recipe, kernels::Activations activations) {
      return model::testing::load_model(
          model::testing::golden_directory() / "models" / GetParam().model, *fast, kLimits, 1,
          *model::parse_recipe(recipe), activations);
    };
    model_ = load(GetParam().recipe, GetParam().activations);
    ASSERT_NE(model_.decoder, nullptr);
    if (!is_split() || one_recipe()) return;
    prefill_model_ = load(GetParam().prefill_recipe, GetParam().prefill_activations);
    ASSERT_NE(prefill_model_.decoder, nullptr);
  }

  static bool is_split() { return GetParam().prefill_recipe != nullptr; }
  static bool one_recipe() {
    return std::string_view(GetParam().prefill_recipe) == GetParam().recipe &&
           GetParam().prefill_activations == GetParam().activations;
  }
  // Split or not, the bits are the same.
  static bool formats_agree() {
    return is_split() && one_recipe() && GetParam().cache == GetParam().prefill_cache;
  }
  testing::StackOptions in_formats(testing::StackOptions options, bool split) const {
    options.cache_format = GetParam().cache;
    if (!split) return options;
    options.prefill_pages = options.pages;
    options.prefill_cache_format = GetParam().prefill_cache;
    options.prefill_decoder = prefill_model_.decoder.get();
    return options;
  }

  // Half of the prompts begin alike.
  static std::vector<wire::GenerateRequest> requests() {
    base::Rng rng(5);
    const auto draw = [&rng](Tokens& tokens, uint64_t count) {
      for (uint64_t i = 0; i < count; ++i) {
        tokens.push_back(static_cast<wire::TokenId>(rng.below(kVocabulary)));
      }
    };
    Tokens common;
    draw(common, 40);
    std::vector<wire::GenerateRequest> out;
    for (int i = 0; i < kRequests; ++i) {
      wire::GenerateRequest request;
      if (i % 2 == 0) request.prompt = common;
      draw(request.prompt, 1 + rng.below(40));
      request.max_tokens = static_cast<int32_t>(4 + rng.below(20));
      request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f;
      request.sampling.seed = rng.bits();
      out.push_back(std::move(request));
    }
    return out;
  }

  Tokens alone(const wire::GenerateRequest& request) {
    EngineStack stack(*model_.decoder,
                      in_formats({.pages = 8, .chunk_tokens = 256, .running_max = 1},
                                 is_split() && !formats_agree()));
    const auto running = stack.submit(request);
    EXPECT_TRUE(running.status.ok());
    EXPECT_TRUE(stack.run_until_idle());
    return running.sink->tokens();
  }

  model::testing::LoadedModel model_;
  model::testing::LoadedModel prefill_model_;  // empty: model_ serves both pools
};

// C006, C014
TEST_P(SoloFormats, EveryAnswerIsTheOneThatTheRequestGetsAlone) {
  const std::vector<wire::GenerateRequest> wanted = requests();
  EngineStack stack(*model_.decoder,
                    in_formats({.pages = 24, .chunk_tokens = 48, .running_max = 8}, is_split()));
  std::vector<EngineStack::Running> running;
  running.reserve(wanted.size());
  base::Rng rng(9);
  for (const wire::GenerateRequest& request : wanted) {
    running.push_back(stack.submit(request));
    for (uint64_t i = rng.below(4); i > 0; --i) {
      stack.prefill().set_chunk_tokens(static_cast<int32_t>(1 + rng.below(90)));
      stack.step();
    }
  }
  ASSERT_TRUE(stack.run_until_idle());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_TRUE(running[i].status.ok());
    EXPECT_EQ(running[i].sink->tokens(), alone(wanted[i])) << "request " << i;
  }
  // Once more, with every prompt in the cache.
  const auto again = stack.submit(wanted.front());
  ASSERT_TRUE(stack.run_until_idle());
  EXPECT_EQ(again.sink->tokens(), running.front().sink->tokens());
  stack.expect_idle();
}

constexpr kv::PageFormat kBf16 = kv::PageFormat::kBf16;
constexpr kv::PageFormat kFp8 = kv::PageFormat::kFp8E4m3;
constexpr kernels::Activations kInt8 = kernels::Activations::kInt8;

INSTANTIATE_TEST_SUITE_P(
    Formats, SoloFormats,
    ::testing::Values(Formats{"qwen3_moe", "bf16", kBf16}, Formats{"qwen3_moe", "fp8", kFp8},
                      Formats{"qwen3_moe", "int4", kBf16}, Formats{"glm_moe_dsa", "bf16", kFp8},
                      Formats{"glm_moe_dsa", "int4", kFp8}, Formats{"deepseek_v3", "fp8", kFp8},
                      Formats{"deepseek_v3", "kimi-fp8", kBf16}, Formats{"llama", "bf16", kFp8},
                      Formats{"llama", "bf16", kBf16, "bf16", kBf16},
                      Formats{"glm_moe_dsa", "int4", kFp8, "int4", kFp8},
                      Formats{"llama", "bf16", kFp8, "bf16", kBf16},
                      Formats{"qwen3_moe", "int4", kFp8, "fp8", kBf16},
                      Formats{"glm_moe_dsa", "int4", kFp8, "fp8", kBf16},
                      Formats{"deepseek_v3", "kimi-fp8", kFp8, "fp8", kBf16},
                      Formats{"qwen3_moe", "int4", kBf16, nullptr, kBf16, kInt8},
                      Formats{"glm_moe_dsa", "int4", kFp8, nullptr, kBf16, kInt8},
                      Formats{"glm_moe_dsa", "int4", kFp8, "int4", kFp8, kInt8, kInt8},
                      Formats{"qwen3_moe", "int4", kFp8, "int4", kBf16, kInt8},
                      Formats{"deepseek_v3", "kimi-fp8", kFp8, "fp8", kBf16, kInt8}),
    [](const auto& param) {
      const auto products = [](const char* recipe, kernels::Activations activations) {
        return fmt::format("{}_{}", recipe, model::to_string(activations));
      };
      std::string name = fmt::format("{}_{}_{}", param.param.model,
                                     products(param.param.recipe, param.param.activations),
                                     kv::to_string(param.param.cache));
      if (param.param.prefill_recipe != nullptr) {
        name += fmt::format("_after_{}_{}",
                            products(param.param.prefill_recipe, param.param.prefill_activations),
                            kv::to_string(param.param.prefill_cache));
      }
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace bulkhead
