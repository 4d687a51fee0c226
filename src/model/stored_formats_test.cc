// Weights in the formats of their checkpoint, and in those of a recipe: what lies in memory, and
// what forward makes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "base/rng.h"
#include "model/formats/codes.h"
#include "model/model_weights.h"
#include "model/tensor_convert.h"
#include "model/testing/files.h"
#include "model/testing/random_model.h"
#include "model/testing/runner.h"
#include "model/transformer.h"
#include "model/weight_sizes.h"
#include "quant/int4_groups.h"

namespace bulkhead::model {
namespace {

using kernels::WeightFormat;
using ::testing::HasSubstr;
using testing::StoredAs;
using testing::TemporaryDirectory;

constexpr StepLimits kLimits = {.rows_max = 64, .logits_rows_max = 64, .slices_max = 4};

WeightRecipe recipe_of(std::string_view text) {
  const auto recipe = parse_recipe(text);
  EXPECT_TRUE(recipe.ok());
  return recipe.ok() ? *recipe : WeightRecipe{};
}

struct Written {
  Written(const std::string& config, const StoredAs& stored) {
    testing::write_random_model(config, stored, directory);
    auto opened = Checkpoint::open(directory.path());
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (opened.ok()) checkpoint = std::make_unique<Checkpoint>(std::move(*opened));
  }

  ModelWeights load(const std::optional<WeightRecipe>& recipe) const {
    device::ThreadPool pool({.threads = 2});
    const auto match = match_tensors(*checkpoint);
    EXPECT_TRUE(match.ok()) << match.error().message;
    auto weights = load_weights(*checkpoint, *match, WeightFormats(*match, recipe), pool, {});
    EXPECT_TRUE(weights.ok()) << weights.error().message;
    return std::move(*weights);
  }

  TemporaryDirectory directory;
  std::unique_ptr<Checkpoint> checkpoint;
};

template <typename T>
std::vector<T> read_all(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::vector<T> out(tensor.bytes / sizeof(T));
  EXPECT_TRUE(checkpoint.read(tensor, 0, std::as_writable_bytes(std::span(out))).ok());
  return out;
}

// A stored weight's values, element by element out of its parts.
std::vector<float> slow_values(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  const QuantisedWeight& weight = *tensor.quantised;
  const size_t columns = tensor.shape[1];
  const auto codes = read_all<uint8_t>(checkpoint, weight.codes);
  std::vector<float> out(tensor.elements);
  if (weight.format == QuantFormat::kFp8Blocks) {
    const auto scales = read_all<float>(checkpoint, weight.scales);
    const size_t blocks = (columns + 127) / 128;
    for (size_t i = 0; i < out.size(); ++i) {
      const float scale = scales[i / columns / 128 * blocks + i % columns / 128];
      out[i] = quant::e4m3_to_float(codes[i]) * scale;
    }
    return out;
  }
  const auto scales = read_all<quant::Bf16>(checkpoint, weight.scales);
  for (size_t i = 0; i < out.size(); ++i) {
    const int nibble = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
    out[i] = static_cast<float>(nibble - 8) * quant::bf16_to_float(scales[i / 32]);
  }
  return out;
}

void expect_row(const kernels::PackedWeights& place, int64_t row, const float* expected) {
  std::vector<float> got(static_cast<size_t>(place.k));
  kernels::unpack_row(place, row, got.data());
  EXPECT_EQ(std::memcmp(got.data(), expected, got.size() * sizeof(float)), 0) << "row " << row;
}

// Some rows of each 16, to a matrix for each: blocks of the tensor are cut across.
void expect_taken_apart(const Checkpoint& checkpoint, const TensorInfo& tensor,
                        const std::vector<float>& expected) {
  constexpr UnitRows kMeant = {.unit = 16, .begin = 3, .count = 9};
  const WeightFormat format = formats::native_format(tensor);
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  const int64_t units = static_cast<int64_t>(tensor.shape[0]) / kMeant.unit;
  device::ThreadPool pool({.threads = 2});
  const size_t bytes = kernels::packed_bytes(format, kMeant.count, columns);
  auto memory = device::Buffer::allocate(bytes * static_cast<size_t>(units));
  ASSERT_TRUE(memory.ok());
  std::vector<kernels::PackedWeights> places;
  places.reserve(static_cast<size_t>(units));
  for (int64_t unit = 0; unit < units; ++unit) {
    places.push_back(
        {memory->data() + bytes * static_cast<size_t>(unit), kMeant.count, columns, format});
  }
  const auto status = TensorConverter(checkpoint, pool).matrices(tensor, kMeant, places);
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (int64_t unit = 0; unit < units; ++unit) {
    for (int64_t row = 0; row < kMeant.count; ++row) {
      expect_row(places[static_cast<size_t>(unit)], row,
                 expected.data() + (unit * kMeant.unit + kMeant.begin + row) * columns);
    }
  }
}

// Packed as it stands, with rows in another order, next to other rows.
void expect_carried_over(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  const WeightFormat format = formats::native_format(tensor);
  const auto rows = static_cast<int64_t>(tensor.shape[0]);
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  constexpr int64_t kRowBegin = 5;
  device::ThreadPool pool({.threads = 2});
  auto memory = device::Buffer::allocate(kernels::packed_bytes(format, rows + kRowBegin, columns));
  ASSERT_TRUE(memory.ok());
  const kernels::PackedWeights place = {memory->data(), rows + kRowBegin, columns, format};
  const TurnedRows turned = {.unit = 16, .begin = 4, .turned = 8};
  const auto status = TensorConverter(checkpoint, pool).matrix(tensor, place, kRowBegin, turned);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const std::vector<float> expected = slow_values(checkpoint, tensor);
  for (int64_t r = 0; r < rows; ++r) {
    expect_row(place, kRowBegin + turned.place(r), expected.data() + r * columns);
  }
  expect_taken_apart(checkpoint, tensor, expected);
}

// C016: experts among them
TEST(StoredFormats, CodesAndScalesAreTakenOverAsTheyAre) {
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kInt4}) {
    const Written model(testing::gqa_config(), {.format = format});
    size_t carried = 0;
    for (const TensorInfo& tensor : model.checkpoint->tensors()) {
      if (tensor.quantised == nullptr) continue;
      if (tensor.name.find("experts.") != std::string::npos &&
          tensor.name.find("experts.1.") == std::string::npos)
        continue;
      SCOPED_TRACE(tensor.name);
      EXPECT_EQ(formats::native_format(tensor), format);
      expect_carried_over(*model.checkpoint, tensor);
      ++carried;
    }
    EXPECT_GE(carried, 10u);
  }
}

// Of kv_b_proj: keys in BF16, transposed; values in a format of their own.
void expect_heads(const MlaWeights& got, WeightFormat format, const float* head_rows) {
  for (size_t head = 0; head < got.value_up.size(); ++head) {
    const kernels::PackedWeights& keys = got.key_up[head];
    const kernels::PackedWeights& values = got.value_up[head];
    ASSERT_EQ(keys.format, WeightFormat::kBf16);
    ASSERT_EQ(values.format, format);
    const int64_t latent = values.k;
    std::vector<float> turned(static_cast<size_t>(keys.k));
    for (int64_t i = 0; i < latent; ++i) {
      for (int64_t row = 0; row < keys.k; ++row) {
        const quant::Bf16 rounded = quant::float_to_bf16(head_rows[row * latent + i]);
        turned[static_cast<size_t>(row)] = quant::bf16_to_float(rounded);
      }
      expect_row(keys, i, turned.data());
    }
    head_rows += keys.k * latent;
    for (int64_t row = 0; row < values.n; ++row, head_rows += latent) {
      expect_row(values, row, head_rows);
    }
  }
}

std::string kv_b_name(size_t layer) {
  return fmt::format("model.layers.{}.self_attn.kv_b_proj.weight", layer);
}

// C016: by head, whose rows lie across the blocks of FP8
TEST(StoredFormats, CodesOfWhatMakesLatentValuesAreTakenOverAsTheyAre) {
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kInt4}) {
    SCOPED_TRACE(to_string(format));
    const Written model(testing::latent_config(), {.format = format});
    const ModelWeights weights = model.load({});
    for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
      const TensorInfo* tensor = model.checkpoint->find(kv_b_name(layer));
      ASSERT_NE(tensor, nullptr);
      const std::vector<float> stored = slow_values(*model.checkpoint, *tensor);
      expect_heads(weights.layers[layer].mla, format, stored.data());
    }
  }
}

// C017, C019: which of the formats that are read are those of the kernels.
TEST(StoredFormats, OnlyWhatKernelsMultiplyWithStaysAsItIs) {
  const auto folded = [](QuantFormat format, uint64_t group, TensorType scales, bool zeros) {
    QuantisedWeight weight;
    weight.format = format;
    weight.block_rows = format == QuantFormat::kFp8Blocks ? group : 1;
    weight.block_columns = group;
    weight.scales.type = scales;
    if (zeros) weight.zeros.emplace();
    TensorInfo tensor;
    tensor.shape = {256, 256};
    tensor.quantised = std::make_shared<const QuantisedWeight>(std::move(weight));
    return formats::native_format(tensor);
  };
  constexpr TensorType kB = TensorType::kBf16;
  EXPECT_EQ(folded(QuantFormat::kFp8Blocks, 128, TensorType::kF32, false), WeightFormat::kFp8);
  EXPECT_EQ(folded(QuantFormat::kFp8Blocks, 128, TensorType::kF8E8M0, false), WeightFormat::kFp8);
  EXPECT_EQ(folded(QuantFormat::kFp8Blocks, 64, TensorType::kF32, false), WeightFormat::kBf16);
  EXPECT_EQ(folded(QuantFormat::kPackedRows, 32, kB, false), WeightFormat::kInt4);
  EXPECT_EQ(folded(QuantFormat::kPackedRows, 128, kB, false), WeightFormat::kInt4);
  EXPECT_EQ(folded(QuantFormat::kPackedRows, 16, kB, false), WeightFormat::kBf16);
  EXPECT_EQ(folded(QuantFormat::kPackedRows, 32, TensorType::kF16, false), WeightFormat::kBf16);
  EXPECT_EQ(folded(QuantFormat::kPackedRows, 32, kB, true), WeightFormat::kBf16);
  EXPECT_EQ(folded(QuantFormat::kAwq, 32, kB, true), WeightFormat::kBf16);
  EXPECT_EQ(folded(QuantFormat::kGptq, 32, kB, true), WeightFormat::kBf16);
}

TEST(StoredFormats, FactsSayWhatTheCheckpointsOwnFormatsAmountTo) {
  const auto facts = [](const std::string& config, const StoredAs& stored,
                        const std::optional<WeightRecipe>& recipe) {
    const Written model(config, stored);
    auto found = weight_facts(*model.checkpoint, recipe);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.ok() ? *found : WeightFacts{};
  };
  const std::string config = testing::gqa_config();
  EXPECT_EQ(facts(config, {}, {}).format, "bf16");
  const WeightFacts fp8 = facts(config, {.format = WeightFormat::kFp8}, {});
  EXPECT_EQ(fp8.format, "fp8");
  EXPECT_EQ(fp8.carried, 2u * 4 + 3 + 4 * 3);
  EXPECT_EQ(fp8.requantised, 0u);
  EXPECT_EQ(facts(config, {.format = WeightFormat::kInt4}, {}).format, "int4");
  // q, k and v are one matrix: it is BF16 when one of them is.
  EXPECT_EQ(facts(config, {.format = WeightFormat::kFp8, .plain = "k_proj"}, {}).format,
            "experts=fp8,attention=bf16+fp8,mlp=fp8");
  // Of kv_b_proj the half that makes values.
  const std::string latent = testing::latent_config();
  const WeightFacts codes = facts(latent, {.format = WeightFormat::kFp8}, {});
  const WeightFacts rounded =
      facts(latent, {.format = WeightFormat::kFp8, .plain = "kv_b_proj"}, {});
  EXPECT_EQ(codes.format, "fp8");
  EXPECT_EQ(rounded.format, "experts=fp8,shared=fp8,attention=bf16+fp8,mlp=fp8");
  EXPECT_EQ(codes.carried, rounded.carried + 3);
  EXPECT_LT(codes.bytes, rounded.bytes);
  const WeightFacts again = facts(config, {.format = WeightFormat::kFp8}, recipe_of("int4"));
  EXPECT_EQ(again.format, "int4");
  EXPECT_EQ(again.carried, 0u);
  EXPECT_EQ(again.requantised, fp8.carried);
  EXPECT_EQ(again.requantised_from, "FP8 e4m3 128x128");
  EXPECT_LT(again.bytes, fp8.bytes);
  EXPECT_LT(fp8.bytes, facts(config, {}, {}).bytes);
}

// What makes latent keys is BF16 of what is stored, so that it alone differs.
void take_keys(const ModelWeights& from, ModelWeights& to) {
  for (size_t layer = 0; layer < to.layers.size(); ++layer) {
    const auto& keys = to.layers[layer].mla.key_up;
    for (size_t head = 0; head < keys.size(); ++head) {
      std::memcpy(to.arena.data() + (keys[head].data - to.arena.data()),
                  from.layers[layer].mla.key_up[head].data,
                  kernels::packed_bytes(keys[head].n, keys[head].k));
    }
  }
}

TEST(StoredFormats, QuantisingAtLoadGivesWhatAQuantisedCheckpointHolds) {
  for (const std::string& config : {testing::gqa_config(), testing::latent_config()}) {
    const Written plain(config, {});
    const Written fp8(config, {.format = WeightFormat::kFp8});
    const Written int4(config, {.format = WeightFormat::kInt4, .rule = quant::ScaleRule::kSearch});
    for (const auto& [stored, recipe] : {std::pair(&fp8, "fp8"), std::pair(&int4, "int4")}) {
      SCOPED_TRACE(recipe);
      const ModelWeights carried = stored->load({});
      ModelWeights quantised = plain.load(recipe_of(recipe));
      ASSERT_EQ(carried.arena.size(), quantised.arena.size());
      take_keys(carried, quantised);
      EXPECT_EQ(std::memcmp(carried.arena.data(), quantised.arena.data(), carried.arena.size()), 0);
    }
  }
}

TEST(StoredFormats, ACodeThatIsNoNumberIsNamedByItsByte) {
  const Written model(testing::gqa_config(), {.format = WeightFormat::kFp8});
  const TensorInfo* tensor = model.checkpoint->find("model.layers.1.mlp.up_proj.weight");
  ASSERT_NE(tensor, nullptr);
  const uint64_t byte = tensor->offset + 200 * tensor->shape[1] + 3;
  model.directory.patch("model.safetensors", byte, '\x7f');
  const auto match = match_tensors(*model.checkpoint);
  ASSERT_TRUE(match.ok());
  device::ThreadPool pool({.threads = 2});
  for (const auto& recipe : {std::optional<WeightRecipe>(), std::optional(WeightRecipe{})}) {
    const auto loaded =
        load_weights(*model.checkpoint, *match, WeightFormats(*match, recipe), pool, {});
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(loaded.error().message, HasSubstr(fmt::format("byte {}: tensor", byte)));
    EXPECT_THAT(loaded.error().message, HasSubstr("is not finite in BF16"));
  }
}

// ---- Products ----

// Every matrix of a model, in one order.
template <typename Visit>
void each_matrix(const ModelWeights& weights, Visit&& visit) {
  const auto mlp = [&](const MlpWeights& one) {
    visit(one.gate_up);
    visit(one.down);
  };
  for (const LayerWeights& layer : weights.layers) {
    for (const auto* one : {&layer.gqa.qkv, &layer.gqa.o, &layer.mla.down, &layer.mla.q_up,
                            &layer.mla.o, &layer.indexer.q, &layer.indexer.k}) {
      visit(*one);
    }
    for (const kernels::PackedWeights& one : layer.mla.value_up) visit(one);
    mlp(layer.mlp);
    mlp(layer.moe.shared);
    for (const MlpWeights& expert : layer.moe.experts) mlp(expert);
  }
  visit(weights.head);
}

// Products as the formats define them, over weights that are held in BF16: one sum of each group,
// then the sum of those. Other matrices go to the kernels.
struct SlowProducts {
  kernels::KernelSet inner;
  std::set<const std::byte*> quantised;
  int64_t group = 0;
};
SlowProducts& slow() {
  static SlowProducts state;
  return state;
}

void slow_gemm(const kernels::GemmArgs& args, device::ThreadPool& pool) {
  if (!slow().quantised.contains(args.w.data)) return slow().inner.gemm(args, pool);
  std::vector<float> row(static_cast<size_t>(args.w.k));
  for (int64_t n = 0; n < args.w.n; ++n) {
    kernels::unpack_row(args.w, n, row.data());
    for (int64_t r = 0; r < args.rows; ++r) {
      float& c = args.c[r * args.c_stride + n];
      if (!args.accumulate) c = args.bias == nullptr ? 0.0f : args.bias[n];
      for (int64_t k = 0; k < args.w.k; k += slow().group) {
        float sum = 0.0f;
        for (int64_t i = k; i < std::min(k + slow().group, args.w.k); ++i) {
          sum = std::fma(args.a[r * args.a_stride + i], row[static_cast<size_t>(i)], sum);
        }
        c += sum;
      }
    }
  }
}

void slow_group(std::span<const kernels::GemmArgs> group, device::ThreadPool& pool) {
  for (const kernels::GemmArgs& args : group) slow_gemm(args, pool);
}

std::vector<float> logits_of(const Written& model, ModelWeights weights,
                             const kernels::KernelSet& kernels) {
  constexpr int32_t kTokens = 40;
  device::ThreadPool pool({.threads = 1});
  ModelFacts facts;
  facts.vocabulary_size = model.checkpoint->config().vocabulary;
  facts.cache = cache_layout(model.checkpoint->config(), 16, kv::PageFormat::kBf16);
  const auto decoder = Transformer::create(facts, model.checkpoint->config(), std::move(weights),
                                           kernels, pool, kLimits, kernels::Activations::kFp32);
  EXPECT_TRUE(decoder.ok());
  const testing::TestCache cache(facts, 16, 4);
  return testing::all_logits(
      **decoder, cache, {.tokens = testing::random_tokens(kTokens, 160, 9), .pages = {0, 2, 1}},
      {30, 1});
}

// C005, C017. With scales that are powers of two a weight is the same number in BF16, and a group's
// sum times its scale is the sum of the scaled weights, bit for bit.
TEST(StoredFormats, ForwardHasTheBitsOfASlowProductOverTheDecodedWeights) {
  for (const std::string& config : {testing::gqa_config(), testing::latent_config()}) {
    for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kInt4}) {
      const Written model(config, {.format = format, .whole_scales = true});
      for (const testing::KernelPath& path : testing::kernel_paths()) {
        if (path.tiles) continue;  // an order of its own
        SCOPED_TRACE(fmt::format("{} {}", path.name, to_string(format)));
        ModelWeights stored = model.load({});
        ModelWeights decoded = model.load(WeightRecipe{});
        std::vector<bool> is_quantised;
        each_matrix(stored, [&](const kernels::PackedWeights& one) {
          is_quantised.push_back(one.format != WeightFormat::kBf16);
        });
        EXPECT_GE(std::ranges::count(is_quantised, true), 10);
        slow() = {path.kernels, {}, format == WeightFormat::kFp8 ? 128 : 32};
        size_t index = 0;
        each_matrix(decoded, [&](const kernels::PackedWeights& one) {
          EXPECT_EQ(one.format, WeightFormat::kBf16);
          if (is_quantised[index++]) slow().quantised.insert(one.data);
        });
        kernels::KernelSet slow_set = path.kernels;
        slow_set.gemm = slow_gemm;
        slow_set.gemm_group = slow_group;
        const std::vector<float> got = logits_of(model, std::move(stored), path.kernels);
        const std::vector<float> expected = logits_of(model, std::move(decoded), slow_set);
        ASSERT_TRUE(std::isfinite(expected.front()));
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
      }
    }
  }
}

// What quantising the row gives, a last group of fewer columns among it.
void expect_searched_row(const kernels::PackedWeights& weights, int64_t row, const float* values) {
  std::vector<float> expected;
  for (int64_t at = 0; at < weights.k; at += quant::kInt4Group) {
    const auto count = static_cast<size_t>(std::min<int64_t>(quant::kInt4Group, weights.k - at));
    std::array<uint8_t, quant::kInt4Group> codes{};
    const float scale = quant::bf16_to_float(quant::quantise_int4_group(
        std::span(values + at, count), quant::ScaleRule::kSearch, codes.data()));
    for (size_t i = 0; i < count; ++i) {
      expected.push_back(static_cast<float>(codes[i] - quant::kInt4Zero) * scale);
    }
  }
  expect_row(weights, row, expected.data());
}

// A row of the table is what its codes and scales say, and nothing else of the model changes.
TEST(StoredFormats, AnEmbeddingTableHasTheFormatOfItsRecipe) {
  const Written model(testing::gqa_config(), {});
  const TensorInfo& table = *model.checkpoint->find("model.embed_tokens.weight");
  const auto stored = read_all<quant::Bf16>(*model.checkpoint, table);
  const ModelWeights plain = model.load(WeightRecipe{});
  ModelWeights four = model.load(recipe_of("embedding=int4"));
  EXPECT_EQ(four.head.format, WeightFormat::kBf16);
  ASSERT_EQ(four.embedding.format, WeightFormat::kInt4);
  const int64_t columns = four.embedding.k;
  const auto packed = [&](WeightFormat format) {
    return kernels::packed_bytes(format, four.embedding.n, columns);
  };
  EXPECT_EQ(plain.arena.size() - four.arena.size(),
            packed(WeightFormat::kBf16) - packed(WeightFormat::kInt4));
  std::vector<float> values(stored.size());
  std::ranges::transform(stored, values.begin(), quant::bf16_to_float);
  for (int64_t row = 0; row < four.embedding.n; ++row) {
    expect_searched_row(four.embedding, row, values.data() + row * columns);
  }
  const kernels::KernelSet& kernels = testing::reference_path().kernels;
  const ModelWeights owner = model.load(recipe_of("embedding=int4"));
  ModelWeights exchanged = model.load(WeightRecipe{});
  exchanged.embedding = owner.embedding;
  const std::vector<float> before = logits_of(model, model.load(WeightRecipe{}), kernels);
  const std::vector<float> after = logits_of(model, std::move(four), kernels);
  EXPECT_NE(before, after);
  EXPECT_EQ(logits_of(model, std::move(exchanged), kernels), after);
}

TEST(StoredFormats, LatentValuesHaveTheFormatOfTheirRecipeThoughTheirColumnsAreNoWholeGroups) {
  constexpr int32_t kLatent = 136;
  const Written model(testing::latent_config(kLatent), {});
  const ModelWeights weights = model.load(recipe_of("attention=int4"));
  const TensorInfo& tensor = *model.checkpoint->find(kv_b_name(1));
  const auto stored = read_all<quant::Bf16>(*model.checkpoint, tensor);
  std::vector<float> values(stored.size());
  std::ranges::transform(stored, values.begin(), quant::bf16_to_float);
  const MlaWeights& mla = weights.layers[1].mla;
  const float* head_rows = values.data();
  for (size_t head = 0; head < mla.value_up.size(); ++head) {
    ASSERT_EQ(mla.key_up[head].format, WeightFormat::kBf16);
    ASSERT_EQ(mla.value_up[head].format, WeightFormat::kInt4);
    head_rows += mla.key_up[head].k * kLatent;
    for (int64_t row = 0; row < mla.value_up[head].n; ++row, head_rows += kLatent) {
      expect_searched_row(mla.value_up[head], row, head_rows);
    }
  }
  // A checkpoint has such a matrix in BF16, and so has memory, as stored.
  const Written four(testing::latent_config(kLatent), {.format = WeightFormat::kInt4});
  EXPECT_EQ(four.load({}).layers[1].mla.value_up[0].format, WeightFormat::kBf16);
}

TEST(StoredFormats, LatentAttentionIsAsLargeAsItsSizesSay) {
  for (const int32_t latent : {160, 136}) {
    const Written model(testing::latent_config(latent), {});
    for (const char* text : {"bf16", "fp8", "int4", "kimi"}) {
      SCOPED_TRACE(fmt::format("{} {}", latent, text));
      const ModelWeights weights = model.load(recipe_of(text));
      uint64_t bytes = 0;
      const auto add = [&](const kernels::PackedWeights& one) {
        bytes += kernels::packed_bytes(one.format, one.n, one.k);
      };
      for (const LayerWeights& layer : weights.layers) {
        for (const auto* one : {&layer.mla.down, &layer.mla.q_up, &layer.mla.o}) add(*one);
        std::ranges::for_each(layer.mla.key_up, add);
        std::ranges::for_each(layer.mla.value_up, add);
      }
      const WeightSizes sizes = packed_sizes_of(model.checkpoint->config(), recipe_of(text));
      EXPECT_EQ(sizes.find("attention")->total(), bytes);
    }
  }
}

}  // namespace
}  // namespace bulkhead::model
