// Slots of a page that were never written hold NaN here: a masked position that is multiplied
// instead of skipped shows at once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/testing/files.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

using testing::TestCache;
using testing::TestSequence;

constexpr int32_t kPageTokens = 16;
constexpr int32_t kLongest = 40;
constexpr StepLimits kLimits = {.rows_max = 256, .logits_rows_max = 64, .slices_max = 8};

// Logits of the last token of each prompt, all prompts in one step.
std::vector<float> last_logits(Decoder& decoder, const TestCache& cache,
                               const std::vector<TestSequence>& prompts) {
  std::vector<SequenceSlice> slices;
  slices.reserve(prompts.size());
  for (const TestSequence& prompt : prompts) {
    slices.push_back(prompt.slice(static_cast<int32_t>(prompt.tokens.size()), LogitsFor::kLast));
  }
  std::vector<float> out(prompts.size() * static_cast<size_t>(decoder.facts().vocabulary_size));
  decoder.forward(slices, cache.view(), out);
  return out;
}

// With values of their own in the cache, and with latent and index keys.
std::vector<std::pair<testing::KernelPath, std::string>> paths_and_models() {
  std::vector<std::pair<testing::KernelPath, std::string>> out;
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    out.emplace_back(path, "qwen3");
    const bool slow = path.name == "ref" || path.tiles;
    if (!slow) out.emplace_back(path, "glm_moe_dsa");
  }
  return out;
}

class UnwrittenSlots : public ::testing::TestWithParam<kv::PageFormat> {};

// C011
TEST_P(UnwrittenSlots, NeverReachAnAnswerAtAnyLengthAloneOrInABatch) {
  const kv::PageFormat format = GetParam();
  for (const auto& [path, name] : paths_and_models()) {
    SCOPED_TRACE(path.name + " " + name);
    const testing::LoadedModel model =
        testing::load_model(testing::golden_directory() / "models" / name, path, kLimits, 1);
    ASSERT_NE(model.decoder, nullptr);
    Decoder& decoder = *model.decoder;
    const auto vocabulary = static_cast<size_t>(decoder.facts().vocabulary_size);
    const std::vector<TokenId> tokens =
        testing::random_tokens(kLongest, decoder.facts().vocabulary_size, 3);
    const TestCache whole(decoder.facts(), kPageTokens, 3, format);
    // Row i of the longest prompt is what a prompt of i + 1 tokens must give.
    const std::vector<float> expected =
        testing::all_logits(decoder, whole, {.tokens = tokens, .pages = {2, 0, 1}}, {kLongest});
    for (size_t length = 1; length <= kLongest; ++length) {
      const std::vector<TokenId> prompt(tokens.begin(),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(length));
      const std::span<const float> row =
          std::span(expected).subspan((length - 1) * vocabulary, vocabulary);
      for (const int32_t batch : {1, 4}) {
        const TestCache cache(decoder.facts(), kPageTokens, 3 * batch, format);
        std::vector<TestSequence> prompts;
        for (int32_t i = 0; i < batch; ++i) {
          prompts.push_back({.tokens = prompt,
                             .pages = testing::contiguous_pages(static_cast<int32_t>(length),
                                                                kPageTokens, 3 * i)});
        }
        const std::vector<float> got = last_logits(decoder, cache, prompts);
        for (size_t i = 0; i < prompts.size(); ++i) {
          const std::span<const float> one = std::span(got).subspan(i * vocabulary, vocabulary);
          ASSERT_TRUE(std::isfinite(one[0]));
          ASSERT_EQ(std::memcmp(one.data(), row.data(), row.size_bytes()), 0)
              << "length " << length << ", place " << i << " of " << batch;
        }
      }
    }
  }
}

// Every byte of an FP8 page is a code or a power of two: 0xFF is NaN as either.
INSTANTIATE_TEST_SUITE_P(Formats, UnwrittenSlots,
                         ::testing::Values(kv::PageFormat::kBf16, kv::PageFormat::kFp8E4m3),
                         [](const auto& param) { return std::string(kv::to_string(param.param)); });

}  // namespace
}  // namespace bulkhead::model
