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
  // model, in one with experts, whose router tips here and there, and in the few rows of one with
  // an indexer (see the test).
  float dense;
  float experts;
  float indexed;
  kernels::Activations activations = kernels::Activations::kFp32;
};

// What was seen at most, of all models and paths, and up to an eighth besides. Most of it is what
// independent errors add up to: some 14 matrices of two layers, each wrong by e, come to
// e * sqrt(14), which is 0.11 in FP8 and 0.37 in INT4, and a head in INT4 adds its own. Models with
// experts have three layers, one with an indexer has six, and both have routers that tip.
// Seen, in this order: 0.066, 0.117, 0.141, 0.372, 0.367, 0.439, 0.451 in dense models, 0.094,
// 0.206, 0.230, 0.726, 0.728, 0.730, 0.732 with experts, 0.098, 0.419, 0.469, 0.865, 0.860, 0.849,
// 0.853 with an indexer: in INT4 the third of four rows, in one of which a router tips with either
// cache.
constexpr Formats kFormats[] = {
    {"bf16", kF, 0.075f, 0.11f, 0.11f},
    {"fp8", kB, 0.13f, 0.22f, 0.46f},
    {"fp8", kF, 0.15f, 0.25f, 0.56f},
    {"int4", kB, 0.42f, 0.74f, 0.95f},
    {"int4", kF, 0.42f, 0.74f, 0.95f},
    {"int4,head=int4", kB, 0.5f, 0.76f, 0.95f},
    {"int4,head=int4", kB, 0.5f, 0.76f, 0.95f, kernels::Activations::kInt8},
};

class GoldenFormatLogits : public ::testing::TestWithParam<std::string> {};

// C009, C012
TEST_P(GoldenFormatLogits, StayNearTheReference) {
  const std::filesystem::path directory = testing::golden_directory() / "models" / GetParam();
  const testing::Golden golden = testing::read_golden(directory / "golden.safetensors");
  const auto checkpoint = Checkpoint::open(directory);
  ASSERT_TRUE(checkpoint.ok());
  const ModelConfig& config = checkpoint->config();
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    for (const Formats& formats : kFormats) {
      // The slow paths compute what the fast ones do, by their own tests: one model is enough.
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
      // Behind its first four positions an indexer has a choice, and at the least error it makes
      // another one, which changes rows at will. Up to there it takes all there is, so those rows
      // are held to a bound, though of so few a router that tips in two moves the middle.
      const bool indexed = config.indexer.heads > 0;
      if (indexed) distances.resize(static_cast<size_t>(config.indexer.top_k));
      std::ranges::sort(distances);
      const float middle = distances[distances.size() / 2];
      fmt::print(
          "{} {}: weights {} x {}, cache {}: of {} rows {:.3f} in the middle, {:.3f} at most\n",
          GetParam(), path.name, formats.recipe, to_string(formats.activations),
          kv::to_string(formats.cache), distances.size(), middle, distances.back());
      EXPECT_LE(middle, indexed                   ? formats.indexed
                        : config.moe.experts == 0 ? formats.dense
                                                  : formats.experts);
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
