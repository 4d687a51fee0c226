// Logits against Hugging Face transformers on the committed tiny models (tools/golden).
//
// Two references: `rounded` keeps K and V in BF16 as the cache does, `plain` does not. The first is
// the acceptance of our arithmetic, the second shows what the cache's format costs.

#include "model/testing/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/testing/files.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

using testing::Agreement;
using testing::compare;
using testing::Golden;
using testing::read_golden;

constexpr int32_t kPromptTokens = 40;
constexpr size_t kTippedRowsMax = 6;  // of 48
constexpr float kExact = 2e-5f;
constexpr size_t kExactRowsMin = 6;
constexpr StepLimits kLimits = {.rows_max = 64, .logits_rows_max = 64, .slices_max = 4};

float relative_gap(const std::vector<float>& values, const std::vector<float>& reference) {
  return compare(values, reference, values.size(), 0.0f).gap;
}

// Rows from the first one on that differ by no more than kExact of the largest logit: those that no
// value whose rounding to BF16 falls the other way has reached yet.
size_t exact_rows(const std::vector<float>& values, const std::vector<float>& reference,
                  size_t width) {
  const Agreement agreement = compare(values, reference, width, kExact);
  return static_cast<size_t>(std::ranges::find(agreement.rows, false) - agreement.rows.begin());
}

struct Case {
  std::string directory;
  std::string file;  // "" = the directory itself
};

class GoldenLogits : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenLogits, AgreeWithTransformersAndGreedyIdsAreEqual) {
  const std::filesystem::path directory =
      testing::golden_directory() / "models" / GetParam().directory;
  const Golden golden = read_golden(directory / "golden.safetensors");
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    SCOPED_TRACE(path.name);
    const testing::LoadedModel model =
        testing::load_model(directory / GetParam().file, path, kLimits, 1);
    ASSERT_NE(model.decoder, nullptr);
    const ModelFacts& facts = model.decoder->facts();
    const auto total = static_cast<int32_t>(golden.ids.size());
    const testing::TestCache cache(facts, 16, 8);
    const testing::TestSequence sequence = {.tokens = golden.ids,
                                            .pages = testing::scattered_pages(total, 16, 8)};
    const std::vector<float> logits =
        testing::all_logits(*model.decoder, cache, sequence, {kPromptTokens, 1});
    const auto vocabulary = static_cast<size_t>(facts.vocabulary_size);
    const Agreement agreement =
        compare(logits, golden.rounded, vocabulary, path.tiles ? 3e-2f : 1e-3f);
    const size_t exact = exact_rows(logits, golden.rounded, vocabulary);
    fmt::print("{} {}: {:.1e} of the largest logit, {} of {} rows, the first {} within {}\n",
               GetParam().directory, path.name, agreement.gap, agreement.count(),
               agreement.rows.size(), exact, kExact);
    // Other roundings make an indexer choose other positions here and there, and with four of them
    // to choose every one counts.
    const bool selects = facts.cache.index_layers > 0;
    if (selects && path.tiles) continue;
    if (!path.tiles) {
      EXPECT_GE(exact, kExactRowsMin);
    }
    // Rounded activations may tip a router, which changes a row and what reads it.
    EXPECT_GE(agreement.count(), agreement.rows.size() - (path.tiles ? kTippedRowsMax : 0));
    if (!selects && !path.tiles) {
      EXPECT_LE(relative_gap(logits, golden.plain), 3e-2f);
    }
    for (size_t i = kPromptTokens; i < golden.ids.size(); ++i) {
      if (!agreement.rows[i - 1]) continue;
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>((i - 1) * vocabulary);
      const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(vocabulary));
      EXPECT_EQ(best - row, golden.ids[i]) << "greedy step " << i - kPromptTokens;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenLogits,
    ::testing::Values(Case{"llama", ""}, Case{"llama", "model.gguf"}, Case{"llama_odd", ""},
                      Case{"qwen2", ""}, Case{"qwen2", "model.gguf"}, Case{"qwen2_yarn", ""},
                      Case{"qwen3_moe", ""}, Case{"glm4_moe", ""}, Case{"deepseek_v3", ""},
                      Case{"deepseek_v32", ""}, Case{"glm_moe_dsa", ""}, Case{"kimi_k25", ""},
                      Case{"qwen3", ""}, Case{"qwen3", "model.gguf"}),
    [](const auto& param) {
      return param.param.directory + (param.param.file.empty() ? "_safetensors" : "_gguf");
    });

// C034
TEST(GoldenDepth, LogitsAgreeFarIntoTheContextAsTheyDoAtItsStart) {
  for (const char* name : {"llama", "qwen2_yarn", "deepseek_v3"}) {
    const std::filesystem::path directory = testing::golden_directory() / "models" / name;
    const Golden golden = read_golden(directory / "golden_depth.safetensors");
    ASSERT_FALSE(golden.positions.empty());
    const auto total = static_cast<int32_t>(golden.ids.size());
    for (const testing::KernelPath& path : testing::kernel_paths()) {
      // Rounded activations tip routers on the way, and the reference path takes its time.
      if (path.tiles || path.kernels.isa == device::Isa::kRef) continue;
      SCOPED_TRACE(fmt::format("{} {}", name, path.name));
      const testing::LoadedModel model = testing::load_model(directory, path, kLimits, 1);
      ASSERT_NE(model.decoder, nullptr);
      const testing::TestCache cache(model.decoder->facts(), 16, 64);
      const std::vector<float> all = testing::all_logits(
          *model.decoder, cache,
          {.tokens = golden.ids, .pages = testing::scattered_pages(total, 16, 64)}, {64});
      const auto width = static_cast<size_t>(model.decoder->facts().vocabulary_size);
      std::vector<float> rows;
      rows.reserve(golden.positions.size() * width);
      for (const int32_t position : golden.positions) {
        const auto row = all.begin() +
                         static_cast<std::ptrdiff_t>(position) * static_cast<std::ptrdiff_t>(width);
        rows.insert(rows.end(), row, row + static_cast<std::ptrdiff_t>(width));
      }
      const Agreement agreement = compare(rows, golden.rounded, width, 1e-3f);
      fmt::print("{} {}: {:.1e} of the largest logit over {} positions up to {}\n", name, path.name,
                 agreement.gap, golden.positions.size(), golden.positions.back());
      EXPECT_EQ(agreement.count(), agreement.rows.size());
    }
  }
}

TEST(GoldenFormats, AGgufFileGivesTheSameBitsAsItsSafetensorsTwin) {
  for (const char* name : {"llama", "qwen2", "qwen3"}) {
    const std::filesystem::path directory = testing::golden_directory() / "models" / name;
    std::vector<std::vector<float>> logits;
    for (const char* file : {"", "model.gguf"}) {
      const testing::LoadedModel model =
          testing::load_model(directory / file, testing::reference_path(), kLimits, 2);
      ASSERT_NE(model.decoder, nullptr);
      const testing::TestCache cache(model.decoder->facts(), 16, 4);
      logits.push_back(testing::all_logits(
          *model.decoder, cache, {.tokens = testing::random_tokens(40, 160, 5), .pages = {0, 1, 2}},
          {40}));
    }
    // llama's RoPE divisors were rounded to FP32 in the GGUF file, the only difference there is.
    if (std::string_view(name) == "llama") {
      EXPECT_LE(relative_gap(logits[1], logits[0]), 1e-5f);
    } else {
      EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)),
                0)
          << name;
    }
  }
}

}  // namespace
}  // namespace bulkhead::model
