// What the forward pass promises beyond its numbers: a row's bits depend on its own sequence alone,
// nothing is allocated, nothing outside the sequence's slots is read.

#include "model/transformer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/testing/quick.h"
#include "model/testing/allocation_trap.h"
#include "model/testing/files.h"
#include "model/testing/golden.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

using testing::TestCache;
using testing::TestSequence;

constexpr StepLimits kLimits = {.rows_max = 1024, .logits_rows_max = 1024, .slices_max = 64};
constexpr int32_t kVocabulary = 160;

std::filesystem::path model_path(std::string_view name) {
  return testing::golden_directory() / "models" / name;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

using kernels::Activations;

// What weights and cache are held in, and what INT4 weights meet.
struct Formats {
  std::string_view recipe;
  kv::PageFormat cache = kv::PageFormat::kBf16;
  Activations activations = Activations::kFp32;
};
constexpr Formats kPlain = {"bf16"};
constexpr kv::PageFormat kFp8Pages = kv::PageFormat::kFp8E4m3;

struct FormsOfModel {
  std::string_view name;
  std::vector<Formats> others = {};  // besides the plain ones
};
constexpr Formats kInt4Everywhere = {"int4,head=int4", kFp8Pages};
constexpr Formats kInt4TimesInt8 = {"int4,head=int4", kFp8Pages, Activations::kInt8};

// Each format of weights, activations and cache with each kind of attention and with experts.
const std::vector<FormsOfModel>& models() {
  static const std::vector<FormsOfModel> kModels = {
      {"llama", {{"int4", kv::PageFormat::kBf16, Activations::kInt8}}},
      {"qwen2"},
      {"qwen3", {{"fp8,head=fp8", kFp8Pages}}},
      {"glm4_moe", {{"kimi-fp8", kFp8Pages}, {"kimi-fp8", kFp8Pages, Activations::kInt8}}},
      {"deepseek_v3", {{"fp8"}}},
      {"glm_moe_dsa", {kInt4Everywhere, kInt4TimesInt8}}};
  return kModels;
}

testing::LoadedModel load(std::string_view name, const testing::KernelPath& path,
                          const Formats& formats, unsigned threads) {
  return testing::load_model(model_path(name), path, kLimits, threads,
                             *parse_recipe(formats.recipe), formats.activations);
}

// Every kind of forward on every runnable path; the slow paths with one alone.
template <typename Body>
void for_each_model(unsigned threads, Body&& body) {
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    for (const auto& [name, others] : models()) {
      const bool slow = path.name == "ref" || path.name == "amx emulated";
      if (slow && name != "glm4_moe") continue;
      std::vector<Formats> all = {kPlain};
      all.insert(all.end(), others.begin(), others.end());
      for (const Formats& formats : all) {
        SCOPED_TRACE(fmt::format("{} {}, weights {} x {}, cache {}", path.name, name,
                                 formats.recipe, to_string(formats.activations),
                                 kv::to_string(formats.cache)));
        const testing::LoadedModel model = load(name, path, formats, threads);
        ASSERT_NE(model.decoder, nullptr);
        body(*model.decoder, formats.cache);
      }
    }
  }
}

// C006, C034
TEST(Transformer, LogitsHaveTheSameBitsAtAnyChunkingAndOnAnyPages) {
  // Long enough for a second cut of the attention's KV range.
  constexpr int32_t kTokens = kernels::kKvSplit + 44;
  constexpr int32_t kPages = 24;
  for_each_model(2, [](Decoder& decoder, kv::PageFormat format) {
    const TestCache cache(decoder.facts(), 16, kPages, format);
    const std::vector<TokenId> tokens = testing::random_tokens(kTokens, kVocabulary, 1);
    const std::vector<float> whole = testing::all_logits(
        decoder, cache, {.tokens = tokens, .pages = testing::contiguous_pages(kTokens, 16, 0)},
        {kTokens});
    for (const float value : whole) ASSERT_TRUE(std::isfinite(value));
    const std::vector<std::vector<int32_t>> cuts = {
        {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}, {255, 1, 1, 43}, {17}, {290, 1}};
    for (const std::vector<int32_t>& chunks :
         std::span(cuts).first(base::testing::quick() ? 2 : cuts.size())) {
      const TestCache other(decoder.facts(), 16, kPages, format);
      const std::vector<float> cut = testing::all_logits(
          decoder, other,
          {.tokens = tokens, .pages = testing::scattered_pages(kTokens, 16, kPages)}, chunks);
      EXPECT_TRUE(same_bits(cut, whole)) << "first chunk " << chunks.front();
    }
    const TestCache wide(decoder.facts(), 64, 6, format);
    EXPECT_TRUE(same_bits(
        testing::all_logits(decoder, wide,
                            {.tokens = tokens, .pages = testing::scattered_pages(kTokens, 64, 6)},
                            {128}),
        whole))
        << "pages of 64 tokens";
  });
}

TEST(Transformer, LatentAttentionHasTheSameBitsAtAnyChunkingOnTheSlowPathsToo) {
  constexpr int32_t kTokens = 37;
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    if (path.name != "ref" && !path.tiles) continue;
    for (const auto& [name, formats] :
         {std::pair("deepseek_v3", kPlain), std::pair("glm_moe_dsa", kPlain),
          std::pair("glm_moe_dsa", kInt4Everywhere), std::pair("glm_moe_dsa", kInt4TimesInt8)}) {
      SCOPED_TRACE(fmt::format("{} {} {} x {}", path.name, name, formats.recipe,
                               to_string(formats.activations)));
      const testing::LoadedModel model = load(name, path, formats, 2);
      ASSERT_NE(model.decoder, nullptr);
      const TestSequence sequence = {.tokens = testing::random_tokens(kTokens, kVocabulary, 6),
                                     .pages = testing::contiguous_pages(kTokens, 16, 0)};
      const TestCache cache(model.decoder->facts(), 16, 4, formats.cache);
      const std::vector<float> whole =
          testing::all_logits(*model.decoder, cache, sequence, {kTokens});
      const TestCache other(model.decoder->facts(), 16, 4, formats.cache);
      EXPECT_TRUE(
          same_bits(testing::all_logits(*model.decoder, other, sequence, {1, 5, 16}), whole));
    }
  }
}

// C014
TEST(Transformer, LogitsHaveTheSameBitsAloneAndAmongOthers) {
  const int32_t count = base::testing::quick() ? 16 : 64;
  const int32_t pages = count * 2;
  for_each_model(1, [=](Decoder& decoder, kv::PageFormat format) {
    std::vector<TestSequence> sequences;
    std::vector<std::vector<float>> alone;
    const TestCache cache(decoder.facts(), 16, pages, format);
    for (int32_t i = 0; i < count; ++i) {
      const int32_t tokens = 2 + i * 7 % 29;
      sequences.push_back(
          {.tokens = testing::random_tokens(tokens, kVocabulary, static_cast<uint64_t>(i)),
           .pages = testing::contiguous_pages(tokens, 16, i * 2)});
      const TestCache own(decoder.facts(), 16, pages, format);
      alone.push_back(testing::all_logits(decoder, own, sequences.back(), {tokens}));
    }
    // Prefill a different share of each without logits, then the rest all together: one step mixes
    // long prefills, single rows and sequences that want every row, the last row or none.
    std::vector<SequenceSlice> slices;
    for (TestSequence& sequence : sequences) {
      const auto tokens = static_cast<int32_t>(sequence.tokens.size());
      const int32_t first = tokens / 2;
      const SequenceSlice slice = sequence.slice(first, LogitsFor::kNone);
      decoder.forward({&slice, 1}, cache.view(), {});
      sequence.done = first;
    }
    size_t rows = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const auto left = static_cast<int32_t>(sequences[i].tokens.size()) - sequences[i].done;
      const bool every_row = i % 3 == 0;
      slices.push_back(sequences[i].slice(left, every_row ? LogitsFor::kAll : LogitsFor::kLast));
      rows += every_row ? static_cast<size_t>(left) : 1;
    }
    std::vector<float> together(rows * kVocabulary);
    decoder.forward(slices, cache.view(), together);
    size_t at = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const size_t wanted = i % 3 == 0 ? slices[i].tokens.size() : 1;
      const std::span<const float> expected =
          std::span<const float>(alone[i]).last(wanted * kVocabulary);
      EXPECT_TRUE(
          same_bits(std::span<const float>(together).subspan(at, expected.size()), expected))
          << "sequence " << i;
      at += expected.size();
    }
  });
}

TEST(Transformer, AStepAllocatesNothing) {
  for_each_model(2, [](Decoder& decoder, kv::PageFormat format) {
    const TestCache cache(decoder.facts(), 16, 20, format);
    const TestSequence sequence = {.tokens = testing::random_tokens(300, kVocabulary, 2),
                                   .pages = testing::contiguous_pages(300, 16, 0)};
    std::vector<float> logits(kVocabulary);
    TestSequence one = sequence;
    one.done = 299;
    const SequenceSlice prefill = sequence.slice(299, LogitsFor::kLast);
    const SequenceSlice decode = one.slice(1, LogitsFor::kLast);
    const testing::AllocationTrap trap;
    decoder.forward({&prefill, 1}, cache.view(), logits);
    decoder.forward({&decode, 1}, cache.view(), logits);
    const int allocations = trap.count();
    EXPECT_EQ(allocations, 0);
  });
}

std::vector<float> short_logits(std::string_view name, const Formats& formats) {
  constexpr int32_t kTokens = 9;
  const testing::LoadedModel model = load(name, testing::reference_path(), formats, 1);
  if (model.decoder == nullptr) return {};
  const TestCache cache(model.decoder->facts(), 16, 1, formats.cache);
  return testing::all_logits(*model.decoder, cache,
                             {.tokens = testing::random_tokens(kTokens, kVocabulary, 8),
                              .pages = testing::contiguous_pages(kTokens, 16, 0)},
                             {kTokens});
}

TEST(Transformer, MatricesOfEveryKindMeetBytesWhereTheyAreInInt4) {
  for (const std::string_view name : {"qwen3_moe", "deepseek_v3", "glm_moe_dsa"}) {
    for (const std::string_view kind : {"experts", "shared", "attention", "mlp", "head"}) {
      if (name == "qwen3_moe" && (kind == "shared" || kind == "mlp")) continue;  // it has none
      SCOPED_TRACE(fmt::format("{} {}", name, kind));
      const std::string recipe = fmt::format("{}=int4", kind);
      const std::vector<float> whole = short_logits(name, {.recipe = recipe});
      const std::vector<float> bytes =
          short_logits(name, {.recipe = recipe, .activations = Activations::kInt8});
      ASSERT_EQ(whole.size(), bytes.size());
      EXPECT_FALSE(same_bits(whole, bytes));
      // With four positions to choose among, an indexer's other choices change rows at will, and
      // a router tips here and there.
      if (name == "glm_moe_dsa") continue;
      std::vector<float> distances = testing::row_distances(bytes, whole, kVocabulary);
      std::ranges::sort(distances);
      EXPECT_LT(distances[distances.size() / 2], 0.1f);
    }
  }
}

TEST(Transformer, ActivationsInBytesAreRefusedWhereNoMatrixIsInInt4) {
  device::ThreadPool pool({.threads = 1});
  for (const auto& [name, recipe, text] :
       {std::tuple("qwen3", "fp8", "fp8"), std::tuple("qwen3", "", "bf16"),
        std::tuple("qwen3_moe", "embedding=int4", "embedding=int4")}) {
    const auto checkpoint = Checkpoint::open(model_path(name));
    ASSERT_TRUE(checkpoint.ok());
    LoadOptions options = {.activations = Activations::kInt8};
    if (*recipe != 0) options.weights = *parse_recipe(recipe);
    const auto decoder =
        load_decoder(*checkpoint, options, testing::reference_path().kernels, pool, kLimits, {});
    ASSERT_FALSE(decoder.ok());
    EXPECT_EQ(decoder.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_EQ(decoder.error().field, "activations");
    EXPECT_NE(decoder.error().message.find(fmt::format("the recipe {} has none", text)),
              std::string::npos)
        << decoder.error().message;
  }
}

TEST(Transformer, FactsTellActivationsApart) {
  const Formats formats = {.recipe = "int4"};
  Formats bytes = formats;
  bytes.activations = Activations::kInt8;
  EXPECT_EQ(load("qwen3", testing::reference_path(), formats, 1).decoder->facts().weight_format,
            "int4");
  EXPECT_EQ(load("qwen3", testing::reference_path(), bytes, 1).decoder->facts().weight_format,
            "int4 x int8");
}

TEST(Transformer, FactsDescribeTheModel) {
  const testing::LoadedModel model =
      testing::load_model(model_path("qwen3"), testing::reference_path(), kLimits, 1);
  ASSERT_NE(model.decoder, nullptr);
  const ModelFacts& facts = model.decoder->facts();
  EXPECT_EQ(facts.name, "qwen3");
  EXPECT_EQ(facts.family, "qwen3");
  EXPECT_EQ(facts.vocabulary_size, kVocabulary);
  EXPECT_EQ(facts.context_tokens, 1024);
  EXPECT_EQ(facts.cache.layers, 2);
  EXPECT_EQ(facts.cache.kv_heads, 2);
  EXPECT_EQ(facts.cache.head_dim, 24);
  EXPECT_EQ(facts.weight_format, "bf16");
  // Embedding, two layers (norms, q, k, v, o, q and k norms, gate, up, down), final norm.
  EXPECT_EQ(facts.parameters,
            160u * 64 + 2 * (2 * 64 + 2 * 96 * 64 + 2 * 48 * 64 + 2 * 24 + 3 * 96 * 64) + 64);
  EXPECT_GE(facts.weight_bytes, facts.parameters * 2);
}

}  // namespace
}  // namespace bulkhead::model
