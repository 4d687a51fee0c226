#include "model/weight_sizes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "model/byte_source.h"
#include "model/side_files.h"

namespace bulkhead::model {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

ModelConfig public_config(const std::string& name) {
  const auto path = std::filesystem::path(std::getenv("BULKHEAD_SOURCE_DIR")) /
                    "tests/golden/configs" / (name + ".json");
  const auto source = open_file(path);
  EXPECT_TRUE(source.ok()) << path;
  const auto text = read_text(**source, 1 << 20);
  EXPECT_TRUE(text.ok());
  GenerationDefaults generation;
  auto config = parse_config(*text, generation);
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
  return *std::move(config);
}

WeightRecipe recipe(const char* text) { return *parse_recipe(text); }

double gib(uint64_t bytes) { return static_cast<double>(bytes) / kGiB; }

// The published figures are 705 -> 421 GiB and 88 -> 52 GiB a rank. The sums over the
// configuration's tensors are 703.7 and 419.9, 88.0 and 52.5.
TEST(WeightSizes, Glm52InFp8AndInInt4AreOfThePublishedSize) {
  const ModelConfig config = public_config("glm-5.2");
  const WeightSizes fp8 = sizes_of(config, recipe("fp8"));
  const WeightSizes int4 = sizes_of(config, recipe("kimi"));
  EXPECT_NEAR(gib(fp8.bytes()), 703.72, 0.01);
  EXPECT_NEAR(gib(int4.bytes()), 419.94, 0.01);
  EXPECT_NEAR(gib(fp8.bytes()), 705, 705 * 0.003);
  EXPECT_NEAR(gib(int4.bytes()), 421, 421 * 0.003);
  EXPECT_EQ(std::lround(gib(fp8.even_bytes(8))), 88);
  EXPECT_EQ(static_cast<int>(gib(int4.even_bytes(8))), 52);
  EXPECT_NEAR(gib(fp8.serving_bytes(8)), 88.18, 0.01);
  EXPECT_NEAR(gib(int4.serving_bytes(8)), 54.4, 0.05);
  EXPECT_NEAR(static_cast<double>(fp8.elements()) / 1e9, 753.33, 0.01);
  EXPECT_NEAR(static_cast<double>(fp8.find("prediction layers")->elements) / 1e9, 9.95, 0.01);
}

TEST(WeightSizes, KimiK26IsOfThePublishedSize) {
  const ModelConfig config = public_config("kimi-k2.6");
  const WeightSizes kimi = sizes_of(config, recipe("kimi"));
  EXPECT_NEAR(static_cast<double>(kimi.elements()) / 1e9, 1026.41, 0.01);
  EXPECT_NEAR(static_cast<double>(kimi.bytes()) / 1e9, 594.2, 0.1);
  EXPECT_NEAR(static_cast<double>(sizes_of(config, recipe("fp8")).bytes()) / 1e9, 1029.2, 0.1);
  EXPECT_NEAR(static_cast<double>(sizes_of(config, recipe("bf16")).bytes()) / 1e9, 2052.8, 0.1);
  EXPECT_EQ(kimi.find("prediction layers"), nullptr);
  const WeightShare* routed = kimi.find("routed experts");
  ASSERT_NE(routed, nullptr);
  EXPECT_EQ(routed->elements, 60ull * 384 * 3 * 7168 * 2048);
  EXPECT_EQ(routed->bytes.codes, routed->elements / 2);
  EXPECT_EQ(routed->bytes.scales, routed->elements / 16);
}

TEST(WeightSizes, BlocksAndGroupsAtTheEdgesCountWhole) {
  using kernels::WeightFormat;
  EXPECT_EQ(stored_bytes(WeightFormat::kFp8, 576, 7168).scales, 4u * 5 * 56);
  EXPECT_EQ(stored_bytes(WeightFormat::kFp8, 1, 1).scales, 4u);
  EXPECT_EQ(stored_bytes(WeightFormat::kInt4, 3, 64).codes, 96u);
  EXPECT_EQ(stored_bytes(WeightFormat::kInt4, 3, 64).scales, 12u);
  EXPECT_EQ(stored_bytes(WeightFormat::kBf16, 3, 5).codes, 30u);
  const WeightRecipe int4 = recipe("int4");
  EXPECT_EQ(stored_format(int4, TensorKind::kDenseMlp, 96), WeightFormat::kInt4);
  EXPECT_EQ(stored_format(int4, TensorKind::kDenseMlp, 40), WeightFormat::kBf16);
}

TEST(WeightSizes, AnEmbeddingTableIsQuantisedInMemoryAlone) {
  const ModelConfig config = public_config("glm-5.2");
  const auto bytes = [&](const WeightSizes& sizes) { return sizes.find("embedding")->total(); };
  const uint64_t plain = uint64_t{2} * config.vocabulary * config.hidden;
  EXPECT_EQ(bytes(packed_sizes_of(config, recipe("kimi"))), plain);
  EXPECT_EQ(bytes(packed_sizes_of(config, recipe("kimi,embedding=int4"))), plain * 9 / 32);
  EXPECT_EQ(sizes_of(config, recipe("kimi,embedding=int4")).bytes(),
            sizes_of(config, recipe("kimi")).bytes());
}

// Heads of 192 rows that make keys and 256 that make values.
TEST(WeightSizes, OfKvBProjInMemoryWhatMakesValuesFollowsTheRecipeAndWhatMakesKeysDoesNot) {
  using kernels::packed_bytes;
  using kernels::WeightFormat;
  const ModelConfig config = public_config("glm-5.2");
  const MlaConfig& mla = config.mla;
  for (const auto& [text, format] :
       {std::pair("fp8", WeightFormat::kFp8), std::pair("attention=int4", WeightFormat::kInt4)}) {
    uint64_t expected = 0;
    for (const ExpectedTensor& tensor : expected_tensors(config, CheckpointFormat::kSafetensors)) {
      if (share_of(tensor.role) != "attention") continue;
      if (tensor.role == WeightRole::kKvUp) {
        expected += packed_bytes(WeightFormat::kBf16, int64_t{config.heads} * mla.nope, mla.latent);
        expected += packed_bytes(format, int64_t{config.heads} * mla.value, mla.latent);
      } else {
        expected += packed_bytes(format, tensor.rows, tensor.columns);
      }
    }
    EXPECT_EQ(packed_sizes_of(config, recipe(text)).find("attention")->total(), expected) << text;
  }
}

// Checkpoints have INT4 in whole groups of 32 columns alone; memory has a shorter one at the end.
TEST(WeightSizes, ColumnsThatAreNoWholeGroupsAreInt4InMemoryAndBf16InACheckpoint) {
  using kernels::WeightFormat;
  ModelConfig config = public_config("glm-5.2");
  config.hidden = 6160;  // 192 groups and a half
  config.prediction_layers = 0;
  uint64_t stored = 0;
  uint64_t packed = 0;
  for (const ExpectedTensor& tensor : expected_tensors(config, CheckpointFormat::kSafetensors)) {
    if (share_of(tensor.role) != "shared experts") continue;
    const bool whole = tensor.columns % 32 == 0;
    const StoredBytes bytes = stored_bytes(whole ? WeightFormat::kInt4 : WeightFormat::kBf16,
                                           tensor.rows, tensor.columns);
    stored += bytes.codes + bytes.scales;
    packed += kernels::packed_bytes(WeightFormat::kInt4, tensor.rows, tensor.columns);
  }
  EXPECT_LT(packed, stored / 2);
  EXPECT_EQ(sizes_of(config, recipe("int4")).find("shared experts")->total(), stored);
  EXPECT_EQ(packed_sizes_of(config, recipe("int4")).find("shared experts")->total(), packed);
}

}  // namespace
}  // namespace bulkhead::model
