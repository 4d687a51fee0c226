// The committed tiny models in every format of weights and cache, against the same references as in
// BF16 (golden_test.cc): how far the logits move, and that they move no further.
//
// These models have random weights: nothing in them damps an error, and 64 products are few for
// errors to cancel in. So the bounds say that the formats' own errors (about 3 % of a weight in
// FP8, 10 % in INT4) come out as no more than they must; two rows that have nothing in common
// are 1.4 apart. That the products are exactly those of the formats is shown by
// stored_formats_test.cc, what a real model makes of them by drift_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/testing/files.h"
#include "model/testing/golden.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

constexpr int32_t kPromptTokens = 40;
constexpr StepLimits kLimits = {.rows_max = 64, .logits_rows_max = 64, .slices_max = 4};

constexpr kv::PageFormat kB = kv::PageFormat::kBf16;
constexpr kv::PageFormat kF = kv::PageFormat::kFp8E4m3;

struct Formats {
  const char* recipe;
  kv::PageFormat cache;
  // Distances from the reference, as shares of a row's length: of the row in the middle, in a dense
  // model and in one with experts, whose router tips here and there.
  float dense;
  float experts;
  kernels::Activations activations = kernels::Activations::kFp32;
};

constexpr Formats kFormats[] = {
    {"bf16", kF, 0.1f, 0.15f},
    {"fp8", kB, 0.15f, 0.25f},
    {"fp8", kF, 0.15f, 0.25f},
    {"int4", kB, 0.5f, 0.8f},
    {"int4", kF, 0.5f, 0.8f},
    {"int4,head=int4", kB, 0.5f, 0.8f},
    {"int4,head=int4", kB, 0.5f, 0.8f, kernels::Activations::kInt8},
};

class GoldenFormatLogits : public ::testing::TestWithParam<std::string> {};

// C009, C012
TEST_P(GoldenFormatLogits, StayNearTheReference) {
  const std::filesystem::path directory = testing::golden_directory() / "models" / GetParam();
  const testing::Golden golden = testing::read_golden(directory / "golden.safetensors");
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    for (const Formats& formats : kFormats) {
      // The slow paths compute what the fast ones do, by their own tests.
      const bool slow = path.tiles || path.kernels.isa == device::Isa::kRef;
      if (slow && GetParam() != "glm4_moe") continue;
      SCOPED_TRACE(fmt::format("{} {} x {} {}", path.name, formats.recipe,
                               to_string(formats.activations), kv::to_string(formats.cache)));
      const testing::LoadedModel model = testing::load_model(
          directory, path, kLimits, 1, *parse_recipe(formats.recipe), formats.activations);
      ASSERT_NE(model.decoder, nullptr);
      const auto total = static_cast<int32_t>(golden.ids.size());
      const testing::TestCache cache(model.decoder->facts(), 16, 8, formats.cache);
      const std::vector<float> logits = testing::all_logits(
          *model.decoder, cache,
          {.tokens = golden.ids, .pages = testing::scattered_pages(total, 16, 8)},
          {kPromptTokens, 1});
      const auto width = static_cast<size_t>(model.decoder->facts().vocabulary_size);
      std::vector<float> distances = testing::row_distances(logits, golden.rounded, width);
      for (const float distance : distances) ASSERT_TRUE(std::isfinite(distance));
      std::ranges::sort(distances);
      const float middle = distances[distances.size() / 2];
      fmt::print(
          "{} {}: weights {} x {}, cache {}: {:.3f} of a row in the middle, {:.3f} at most\n",
          GetParam(), path.name, formats.recipe, to_string(formats.activations),
          kv::to_string(formats.cache), middle, distances.back());
      // With four positions to choose among, an indexer's other choices change rows at will.
      if (model.decoder->facts().cache.index_layers > 0) continue;
      const auto checkpoint = Checkpoint::open(directory);
      ASSERT_TRUE(checkpoint.ok());
      const bool dense = checkpoint->config().moe.experts == 0;
      EXPECT_LE(middle, dense ? formats.dense : formats.experts);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenFormatLogits,
                         ::testing::Values("llama", "llama_odd", "qwen2", "qwen2_yarn", "qwen3",
                                           "qwen3_moe", "glm4_moe", "deepseek_v3", "deepseek_v32",
                                           "glm_moe_dsa", "kimi_k25"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace bulkhead::model
