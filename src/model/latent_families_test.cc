// Configurations and tensors of the models with latent attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "model/checkpoint.h"
#include "model/families/family.h"
#include "model/model_tensors.h"
#include "model/safetensors.h"
#include "model/side_files.h"
#include "model/testing/files.h"

namespace bulkhead::model {
namespace {

using ::testing::HasSubstr;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path golden(std::string_view name) {
  return testing::golden_directory() / "models" / name;
}

base::Result<ModelConfig> parse(const std::string& text) {
  GenerationDefaults ignored;
  return parse_config(text, ignored);
}

// A golden model's configuration with some keys replaced (a null removes).
std::string config_with(std::string_view name, std::string_view changes) {
  boost::json::object config =
      boost::json::parse(read_file(golden(name) / "config.json")).as_object();
  const boost::json::value parsed = boost::json::parse(changes);
  for (const auto& [key, value] : parsed.as_object()) config[key] = value;
  return boost::json::serialize(config);
}

std::string error_with(std::string_view name, std::string_view changes) {
  const auto result = parse(config_with(name, changes));
  return result.ok() ? "no error" : result.error().message;
}

struct Published {
  const char* file;
  const char* family;
  double softmax_scale;
  int index_layers;
  uint64_t token_bytes;  // of a BF16 cache
};

// The figures of the published configurations, as their authors' code gives them.
constexpr Published kPublished[] = {
    {"deepseek-ai--DeepSeek-V3", "deepseek_v3", 0.1352337788608801, 0, 70'272},
    {"deepseek-ai--DeepSeek-R1", "deepseek_v3", 0.1352337788608801, 0, 70'272},
    {"deepseek-ai--DeepSeek-V3.2", "deepseek_v32", 0.1352337788608801, 61, 70'272 + 61 * 256},
    {"moonshotai--Kimi-K2-Instruct", "kimi_k2", 0.1308607999629501, 0, 70'272},
    {"moonshotai--Kimi-K2.5", "kimi_k25", 0.1446796258026902, 0, 70'272},
    {"zai-org--GLM-5", "glm_moe_dsa", 0.0625, 78, 89'856 + 78 * 256},
    {"zai-org--GLM-5.2", "glm_moe_dsa", 0.0625, 21, 89'856 + 21 * 256},
};

TEST(LatentFamilies, ThePublishedConfigurationsGiveTheirAuthorsFigures) {
  const char* shared = std::getenv("BULKHEAD_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "BULKHEAD_SHARED is not set: no published configurations";
  const auto folder = std::filesystem::path(shared) / "data" / "models" / "configs";
  for (const Published& expected : kPublished) {
    SCOPED_TRACE(expected.file);
    const auto config = parse(read_file(folder / (std::string(expected.file) + ".json")));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->family, expected.family);
    EXPECT_NEAR(config->mla.softmax_scale, expected.softmax_scale, 1e-12);
    const kv::PageLayout layout = cache_layout(*config, 64, kv::PageFormat::kBf16);
    EXPECT_EQ(layout.index_layers, expected.index_layers);
    EXPECT_EQ(layout.token_bytes(), expected.token_bytes);
  }
}

// C009
TEST(LatentFamilies, YarnMultipliesTheSoftmaxScaleAndLeavesTheRotationAlone) {
  const auto config = parse(config_with("deepseek_v3", R"({"qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "rope_parameters": null, "rope_theta": 50000, "rope_scaling":
      {"type": "yarn", "factor": 64, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
       "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}})"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_NEAR(config->mla.softmax_scale, 0.1446796258026902, 1e-12);
  EXPECT_EQ(config->rope.attention_factor, 1.0);
}

TEST(LatentFamilies, FullAndSharedIndexersAreReadInEverySpelling) {
  const auto layers = [](std::string_view changes) {
    const auto config = parse(config_with("glm_moe_dsa", changes));
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config.ok() ? config->indexer.full_layers : std::vector<uint8_t>{};
  };
  const std::vector<uint8_t> expected = {1, 1, 0, 0, 1, 0};
  EXPECT_EQ(layers("{}"), expected);
  EXPECT_EQ(layers(R"({"indexer_types": null, "index_topk_pattern": "FFSSFS"})"), expected);
  EXPECT_EQ(layers(R"({"indexer_types": null})"), std::vector<uint8_t>(6, 1));
  EXPECT_EQ(layers(R"({"indexer_types": null, "index_topk_freq": 4, "index_skip_topk_offset": 3})"),
            (std::vector<uint8_t>{1, 1, 1, 0, 0, 0}));
  EXPECT_THAT(
      error_with("glm_moe_dsa", R"({"indexer_types": null, "index_topk_pattern": "SFSSFS"})"),
      HasSubstr("the first layer has no choice to share"));
  EXPECT_THAT(error_with("glm_moe_dsa", R"({"indexer_types": ["full"]})"),
              HasSubstr("indexer_types: must cover 6 layers"));
}

TEST(LatentFamilies, EndTokensAreReadFromThePartThatWritesToo) {
  GenerationDefaults generation;
  const std::string text = config_with("kimi_k25", R"({"eos_token_id": 5, "text_config": null})");
  boost::json::object config = boost::json::parse(text).as_object();
  config["text_config"] =
      boost::json::parse(read_file(golden("kimi_k25") / "config.json")).at("text_config");
  config["text_config"].as_object()["eos_token_id"] = 7;
  ASSERT_TRUE(parse_config(boost::json::serialize(config), generation).ok());
  EXPECT_THAT(generation.eos_ids, ::testing::ElementsAre(5, 7));
}

TEST(LatentFamilies, SettingsThatContradictEachOtherAreNamed) {
  EXPECT_THAT(error_with("deepseek_v3", R"({"qk_rope_head_dim": 15})"),
              HasSubstr("qk_rope_head_dim: 15 is not even"));
  EXPECT_THAT(error_with("deepseek_v3", R"({"kv_lora_rank": null})"), HasSubstr("kv_lora_rank"));
  EXPECT_THAT(error_with("deepseek_v3", R"({"kv_lora_rank": 1020})"),
              HasSubstr("keys of 1036 values"));
  EXPECT_THAT(error_with("deepseek_v3", R"({"attention_bias": true})"),
              HasSubstr("attention_bias"));
  EXPECT_THAT(error_with("deepseek_v32", R"({"index_head_dim": 8})"), HasSubstr("index_head_dim"));
  EXPECT_THAT(error_with("glm_moe_dsa", R"({"mlp_layer_types": ["dense"]})"),
              HasSubstr("mlp_layer_types"));
  EXPECT_THAT(error_with("kimi_k25", R"({"text_config": null})"), HasSubstr("text_config"));
}

// A copy of a golden model whose files a test may change.
class Copy {
 public:
  explicit Copy(std::string_view name) {
    directory_.write("config.json", read_file(golden(name) / "config.json"));
    const auto source = open_file(golden(name) / "model.safetensors");
    EXPECT_TRUE(source.ok());
    const auto tensors = read_safetensors(**source, 0);
    EXPECT_TRUE(tensors.ok());
    for (const TensorInfo& tensor : *tensors) {
      std::string data(tensor.bytes, '\0');
      EXPECT_TRUE((*source)->read(tensor.offset, std::as_writable_bytes(std::span(data))).ok());
      tensors_.push_back({tensor.name, std::string(to_string(tensor.type)), tensor.shape, data});
    }
  }

  std::vector<testing::FileTensor>& tensors() { return tensors_; }
  testing::FileTensor& named(std::string_view name) {
    return *std::ranges::find(tensors_, name, &testing::FileTensor::name);
  }
  // What is wrong with the files, in the words of whoever sees it first.
  std::string error() const {
    directory_.write("model.safetensors", testing::safetensors_bytes(tensors_));
    const auto checkpoint = Checkpoint::open(directory_.path());
    if (!checkpoint.ok()) return checkpoint.error().message;
    const auto match = match_tensors(*checkpoint);
    return match.ok() ? "no error" : match.error().message;
  }
  const testing::TemporaryDirectory& directory() const { return directory_; }

 private:
  testing::TemporaryDirectory directory_;
  std::vector<testing::FileTensor> tensors_;
};

constexpr const char* kExpert = "model.layers.1.mlp.experts.5.up_proj.weight";

TEST(LatentTensors, AMissingExpertIsNamed) {
  Copy copy("deepseek_v3");
  EXPECT_EQ(copy.error(), "no error");
  std::erase_if(copy.tensors(), [](const auto& tensor) { return tensor.name == kExpert; });
  EXPECT_THAT(copy.error(), HasSubstr(std::string("tensor \"") + kExpert + "\" is missing"));
}

TEST(LatentTensors, AConfigurationThatContradictsItsTensorsIsNamed) {
  Copy copy("deepseek_v3");
  copy.directory().write("config.json", config_with("deepseek_v3", R"({"v_head_dim": 24})"));
  EXPECT_THAT(copy.error(), HasSubstr("kv_b_proj.weight\" has shape"));
  copy.directory().write("config.json", config_with("deepseek_v3", R"({"n_routed_experts": 6})"));
  EXPECT_THAT(copy.error(), HasSubstr("mlp.gate.weight\" has shape"));
  copy.directory().write("config.json",
                         config_with("deepseek_v3", R"({"first_k_dense_replace": 2})"));
  EXPECT_THAT(copy.error(), HasSubstr("model.layers.1.mlp.gate_proj.weight\" is missing"));
}

TEST(LatentTensors, LayersThatPredictAreSkippedByRuleAndOnlyThose) {
  Copy copy("deepseek_v3");  // three layers, and one that predicts by its configuration
  testing::FileTensor extra = copy.named("model.norm.weight");
  extra.name = "model.layers.3.shared_head.norm.weight";
  copy.tensors().push_back(extra);
  EXPECT_EQ(copy.error(), "no error");
  copy.tensors().back().name = "model.layers.4.shared_head.norm.weight";
  EXPECT_THAT(copy.error(), HasSubstr("model.layers.4.shared_head.norm.weight\" has no place"));
  copy.tensors().back().name = "model.layers.3.shared_head.norm.weight";
  copy.directory().write("config.json",
                         config_with("deepseek_v3", R"({"num_nextn_predict_layers": 0})"));
  EXPECT_THAT(copy.error(), HasSubstr("model.layers.3.shared_head.norm.weight\" has no place"));
}

TEST(LatentTensors, ASharedIndexerHasNoTensorsOfItsOwn) {
  Copy copy("glm_moe_dsa");
  testing::FileTensor extra = copy.named("model.layers.1.self_attn.indexer.wk.weight");
  extra.name = "model.layers.2.self_attn.indexer.wk.weight";
  copy.tensors().push_back(extra);
  EXPECT_THAT(copy.error(), HasSubstr("layers.2.self_attn.indexer.wk.weight\" has no place"));
}

// C003: a cache's scales are computed as it is written; a checkpoint's would go nowhere.
TEST(LatentTensors, ScalesThatNoKernelWouldLookForAreNamed) {
  Copy copy("deepseek_v3");
  testing::FileTensor extra = copy.named("model.norm.weight");
  for (const char* name : {"self_attn.k_scale", "self_attn.v_scale", "self_attn.attn.kv_scale"}) {
    extra.name = std::string("model.layers.0.") + name;
    copy.tensors().push_back(extra);
    EXPECT_THAT(copy.error(), HasSubstr(extra.name + "\" has no place"));
    copy.tensors().pop_back();
  }
}

TEST(LatentTensors, OtherTowersAreIgnoredByTheirNames) {
  Copy copy("kimi_k25");
  const auto tower = std::ranges::count_if(copy.tensors(), [](const auto& tensor) {
    return tensor.name.starts_with("vision_tower.") || tensor.name.starts_with("mm_projector.");
  });
  EXPECT_GT(tower, 0);
  EXPECT_EQ(copy.error(), "no error");
  testing::FileTensor extra = copy.tensors().front();
  extra.name = "audio_tower.weight";
  copy.tensors().push_back(extra);
  EXPECT_THAT(copy.error(), HasSubstr("audio_tower.weight\" has no place"));
}

}  // namespace
}  // namespace bulkhead::model
