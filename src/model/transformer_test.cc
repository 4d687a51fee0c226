// What the forward pass promises beyond its numbers: a row's bits depend on its own sequence alone,
// nothing is allocated, nothing outside the sequence's slots is read.

#include "model/transformer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "model/testing/allocation_trap.h"
#include "model/testing/files.h"
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

// What weights and cache are held in.
struct Formats {
  std::string_view recipe;
  kv::PageFormat cache;
};
constexpr Formats kPlain = {"bf16", kv::PageFormat::kBf16};
constexpr kv::PageFormat kFp8Pages = kv::PageFormat::kFp8E4m3;

struct FormsOfModel {
  std::string_view name;
  Formats other;  // besides the plain ones; plain: none
};
// Each format of weights and cache with each kind of attention and with experts.
constexpr FormsOfModel kModels[] = {{"llama", kPlain},
                                    {"qwen2", kPlain},
                                    {"qwen3", {"fp8,head=fp8", kFp8Pages}},
                                    {"glm4_moe", {"kimi-fp8", kFp8Pages}},
                                    {"deepseek_v3", kPlain},
                                    {"glm_moe_dsa", {"int4,head=int4", kFp8Pages}}};

// Every kind of forward on every runnable path; the slow paths with one alone.
template <typename Body>
void for_each_model(unsigned threads, Body&& body) {
  for (const testing::KernelPath& path : testing::kernel_paths()) {
    for (const auto& [name, other] : kModels) {
      const bool slow = path.name == "ref" || path.name == "amx emulated";
      if (slow && name != "glm4_moe") continue;
      for (const Formats& formats : {kPlain, other}) {
        SCOPED_TRACE(fmt::format("{} {}, weights {}, cache {}", path.name, name, formats.recipe,
                                 kv::to_string(formats.cache)));
        const testing::LoadedModel model = testing::load_model(
            model_path(name), path, kLimits, threads, *parse_recipe(formats.recipe));
        ASSERT_NE(model.decoder, nullptr);
        body(*model.decoder, formats.cache);
        if (other.recipe == kPlain.recipe) break;
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
    for (const std::vector<int32_t>& chunks :
         {std::vector<int32_t>{1, 2, 3, 5, 8, 13, 21, 34, 55, 89},
          {255, 1, 1, 43},
          {17},
          {290, 1}}) {
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
          std::pair("glm_moe_dsa", kModels[5].other)}) {
      SCOPED_TRACE(fmt::format("{} {} {}", path.name, name, formats.recipe));
      const testing::LoadedModel model =
          testing::load_model(model_path(name), path, kLimits, 2, *parse_recipe(formats.recipe));
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
  constexpr int32_t kSequences = 64;
  constexpr int32_t kPages = kSequences * 2;
  for_each_model(1, [](Decoder& decoder, kv::PageFormat format) {
    std::vector<TestSequence> sequences;
    std::vector<std::vector<float>> alone;
    const TestCache cache(decoder.facts(), 16, kPages, format);
    for (int32_t i = 0; i < kSequences; ++i) {
      const int32_t tokens = 2 + i * 7 % 29;
      sequences.push_back(
          {.tokens = testing::random_tokens(tokens, kVocabulary, static_cast<uint64_t>(i)),
           .pages = testing::contiguous_pages(tokens, 16, i * 2)});
      const TestCache own(decoder.facts(), 16, kPages, format);
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
