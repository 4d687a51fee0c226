#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <numbers>

#include "model/families/family.h"
#include "model/side_files.h"
#include "model/testing/files.h"

namespace bulkhead::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

base::Result<ModelConfig> parse(const std::string& text) {
  GenerationDefaults ignored;
  return parse_config(text, ignored);
}

// The tiny llama's configuration with some keys replaced (a null removes).
std::string config_with(std::string_view changes) {
  boost::json::object config = boost::json::parse(testing::tiny_llama_config()).as_object();
  const boost::json::value parsed = boost::json::parse(changes);
  for (const auto& [key, value] : parsed.as_object()) config[key] = value;
  return boost::json::serialize(config);
}

std::string error_with(std::string_view changes) {
  const auto result = parse(config_with(changes));
  return result.ok() ? "no error" : result.error().message;
}

TEST(Families, LlamaReadsDimensionsAndDefaults) {
  GenerationDefaults generation;
  const auto config = parse_config(testing::tiny_llama_config(), generation);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, "llama");
  EXPECT_EQ(config->hidden, 16);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->kv_heads, 1);
  EXPECT_EQ(config->context, 64);
  EXPECT_FLOAT_EQ(config->rms_eps, 1e-5f);
  EXPECT_FALSE(config->qkv_bias || config->o_bias || config->mlp_bias || config->qk_norm);
  EXPECT_FALSE(config->qk_rows_interleaved);
  EXPECT_EQ(config->tie, TieRule::kUntied);
  EXPECT_THAT(generation.eos_ids, ElementsAre(2));
}

TEST(Families, BiasFlagsMeanWhatEachFamilyMeansByThem) {
  const auto llama = parse(config_with(R"({"attention_bias": true, "mlp_bias": true})"));
  EXPECT_TRUE(llama->qkv_bias && llama->o_bias && llama->mlp_bias);
  const auto qwen2 = parse(config_with(R"({"model_type": "qwen2"})"));
  EXPECT_TRUE(qwen2->qkv_bias && !qwen2->o_bias && !qwen2->qk_norm);
  const auto qwen3 = parse(config_with(R"({"model_type": "qwen3"})"));
  EXPECT_TRUE(!qwen3->qkv_bias && !qwen3->o_bias && qwen3->qk_norm);
  EXPECT_EQ(qwen3->head_dim, 128);
}

TEST(Families, AnUnknownFamilyIsAnErrorThatListsTheKnownOnes) {
  EXPECT_THAT(error_with(R"({"model_type": "mamba"})"),
              AllOf(HasSubstr("config.json: model family \"mamba\""), HasSubstr("llama, qwen2")));
  EXPECT_THAT(error_with(R"({"model_type": null})"), HasSubstr("config.json: model_type: missing"));
}

TEST(Families, EveryRequiredDimensionIsNamedWhenItIsMissingOrOutOfRange) {
  for (const std::string key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    EXPECT_THAT(error_with("{\"" + key + "\": null}"), HasSubstr("config.json: " + key + ": miss"));
    for (const std::string bad :
         {"0", "-1", "1.5", "\"16\"", "1e30", "2147483648", "true", "[1]"}) {
      EXPECT_THAT(error_with("{\"" + key + "\": " + bad + "}"),
                  HasSubstr("config.json: " + key + ": must be a whole number"))
          << bad;
    }
  }
  EXPECT_THAT(error_with(R"({"num_key_value_heads": 3})"), HasSubstr("does not divide"));
  EXPECT_THAT(error_with(R"({"hidden_size": 17})"), HasSubstr("head_dim: missing, and"));
  EXPECT_THAT(error_with(R"({"head_dim": 7})"), HasSubstr("head_dim: 7 is not an even number"));
  EXPECT_THAT(error_with(R"({"rms_norm_eps": -1})"), HasSubstr("rms_norm_eps: must be a number"));
  EXPECT_THAT(error_with(R"({"tie_word_embeddings": 1})"), HasSubstr("tie_word_embeddings"));
}

TEST(Families, SettingsThatChangeTheNumbersAndAreNotComputedAreRefused) {
  EXPECT_THAT(error_with(R"({"hidden_act": "gelu"})"), HasSubstr("hidden_act"));
  EXPECT_THAT(error_with(R"({"use_sliding_window": true})"), HasSubstr("use_sliding_window"));
  EXPECT_THAT(error_with(R"({"sliding_window": 128})"), HasSubstr("sliding_window"));
  EXPECT_THAT(error_with(R"({"layer_types": ["sliding_attention"]})"), HasSubstr("layer_types"));
  EXPECT_THAT(error_with(R"({"partial_rotary_factor": 0.5})"), HasSubstr("partial_rotary_factor"));
  EXPECT_EQ(error_with(R"({"model_type": "qwen2", "use_sliding_window": false,
                           "sliding_window": 4096, "layer_types": ["full_attention"]})"),
            "no error");
}

constexpr const char* kGlm = R"({"model_type": "glm4_moe", "n_routed_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 12, "num_hidden_layers": 4,
    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, "routed_scaling_factor": 2.5)";

std::string glm_with(const std::string& changes) {
  return std::string(kGlm) + (changes.empty() ? "" : ", " + changes) + "}";
}

TEST(Families, GlmReadsItsExperts) {
  const auto config = parse(config_with(glm_with("")));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->rotary_dim, config->head_dim / 2);
  EXPECT_EQ(config->moe.experts, 8);
  EXPECT_EQ(config->moe.per_token, 2);
  EXPECT_EQ(config->moe.shared, 1);
  EXPECT_THAT(config->moe.sparse_layers, ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(config->moe.score, kernels::RouterScore::kSigmoid);
  EXPECT_TRUE(config->moe.selection_bias && config->moe.normalise);
  EXPECT_EQ(config->moe.scale, 2.5);
}

TEST(Families, Qwen3MoeReadsItsExpertsUnderEitherName) {
  for (const std::string name : {"num_experts", "num_local_experts"}) {
    const auto config = parse(
        config_with("{\"model_type\": \"qwen3_moe\", \"" + name + R"(": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 12, "num_hidden_layers": 6, "decoder_sparse_step": 2,
        "mlp_only_layers": [3]})"));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->moe.experts, 8);
    EXPECT_THAT(config->moe.sparse_layers, ElementsAre(0, 1, 0, 0, 0, 1));
    EXPECT_EQ(config->moe.score, kernels::RouterScore::kSoftmax);
    EXPECT_FALSE(config->moe.selection_bias || config->moe.normalise);
  }
}

TEST(Families, ExpertsThatContradictEachOtherAreNamed) {
  EXPECT_THAT(error_with(glm_with(R"("num_experts_per_tok": 9)")),
              HasSubstr("num_experts_per_tok: 9 exceeds the 8 experts"));
  EXPECT_THAT(error_with(glm_with(R"("n_group": 3)")), HasSubstr("n_group"));
  EXPECT_THAT(error_with(glm_with(R"("n_group": 8)")), HasSubstr("n_group"));
  EXPECT_THAT(error_with(glm_with(R"("topk_group": 3)")), HasSubstr("n_group"));
  EXPECT_THAT(error_with(glm_with(R"("first_k_dense_replace": 5)")),
              HasSubstr("first_k_dense_replace: must be a whole number from 0 to 4"));
  EXPECT_THAT(error_with(glm_with(R"("n_routed_experts": null)")),
              HasSubstr("n_routed_experts: missing"));
  EXPECT_THAT(error_with(glm_with(R"("moe_intermediate_size": 0)")),
              HasSubstr("moe_intermediate_size"));
  EXPECT_THAT(error_with(glm_with(R"("partial_rotary_factor": 0.01)")),
              HasSubstr("partial_rotary_factor"));
}

// C032
TEST(Rope, AllThreeSpellingsOfScalingAreRead) {
  for (const std::string changes :
       {R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})",
        R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})",
        R"({"rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 4}})"}) {
    const auto config = parse(config_with(changes));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(config->rope.factor, 4.0);
    EXPECT_EQ(config->rope.theta, 5e5);
  }
}

// C032
TEST(Rope, UnknownTypesAreLoadErrors) {
  for (const std::string type : {"dynamic", "longrope", "foo", ""}) {
    EXPECT_THAT(error_with(R"({"rope_scaling": {"factor": 2, "rope_type": ")" + type + "\"}}"),
                HasSubstr("config.json: rope_scaling: rope_type: \"" + type + "\""));
  }
  EXPECT_THAT(error_with(R"({"rope_scaling": {"type": "su"}})"), HasSubstr("rope_scaling: type"));
  EXPECT_THAT(error_with(R"({"rope_scaling": "yarn"})"), HasSubstr("must be an object"));
  EXPECT_THAT(error_with(R"({"rope_scaling": {"type": "linear"}})"), HasSubstr("factor: missing"));
  EXPECT_THAT(error_with(R"({"rope_scaling": {"type": "linear", "factor": 0}})"),
              HasSubstr("rope_scaling: factor: must be a number"));
  EXPECT_THAT(error_with(R"({"rope_theta": 1})"), HasSubstr("rope_theta"));
  EXPECT_THAT(error_with(R"({"rope_parameters": {"full_attention": {}}})"),
              HasSubstr("per layer type"));
}

TEST(Rope, YarnWithoutItsOptionalKeysTakesTheStatedDefaults) {
  const auto config = parse(config_with(R"({"rope_scaling": {"type": "yarn",
                            "original_max_position_embeddings": 16}})"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->rope.factor, 4.0);  // 64 / 16
  EXPECT_NEAR(config->rope.attention_factor, 0.1 * std::log(4.0) + 1.0, 1e-12);
  const auto given = parse(
      config_with(R"({"rope_scaling": {"type": "yarn", "factor": 8, "attention_factor": 1.25}})"));
  EXPECT_EQ(given->rope.attention_factor, 1.25);
  EXPECT_EQ(given->rope.original_context, 64);
  const auto deepseek = parse(config_with(
      R"({"rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1, "mscale_all_dim": 1}})"));
  EXPECT_EQ(deepseek->rope.attention_factor, 1.0);
}

// C032
TEST(Rope, Llama3KeepsShortWavesAndDividesLongOnes) {
  const RopeConfig rope = {.theta = 5e5,
                           .scaling = RopeScaling::kLlama3,
                           .factor = 8.0,
                           .original_context = 8192,
                           .low_freq_factor = 1.0,
                           .high_freq_factor = 4.0};
  const std::vector<float> scaled = inverse_frequencies(rope, 128);
  const std::vector<float> plain = inverse_frequencies({.theta = 5e5}, 128);
  ASSERT_EQ(scaled.size(), 64u);
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double wave = 2.0 * std::numbers::pi / static_cast<double>(plain[i]);
    if (wave < 2048) {
      EXPECT_EQ(scaled[i], plain[i]);
    } else if (wave > 8192) {
      EXPECT_EQ(scaled[i], plain[i] / 8.0f);
    } else {
      EXPECT_LT(scaled[i], plain[i]);
      EXPECT_GT(scaled[i], plain[i] / 8.0f);
    }
  }
  EXPECT_EQ(plain[0], 1.0f);
}

TEST(Families, GenerationDefaultsAreAUnionOfAllPlacesThatNameAnEnd) {
  GenerationDefaults generation;
  ASSERT_TRUE(parse_config(config_with(R"({"eos_token_id": [7, 2]})"), generation).ok());
  ASSERT_TRUE(parse_generation_config(
                  R"({"eos_token_id": [9, 7], "do_sample": true, "temperature": 0.7, "top_k": 20,
                      "top_p": 0.8, "repetition_penalty": 1.05, "bos_token_id": 1})",
                  20, generation)
                  .ok());
  EXPECT_THAT(generation.eos_ids, ElementsAre(2, 7, 9));
  EXPECT_EQ(generation.do_sample, true);
  EXPECT_EQ(generation.temperature, 0.7f);
  EXPECT_EQ(generation.top_p, 0.8f);
  EXPECT_EQ(generation.top_k, 20);
  EXPECT_EQ(generation.repetition_penalty, 1.05f);
}

TEST(Families, GenerationDefaultsOutOfRangeAreErrors) {
  for (const std::string text :
       {R"({"eos_token_id": 20})", R"({"eos_token_id": -1})", R"({"eos_token_id": "2"})",
        R"({"eos_token_id": [2, null]})", R"({"temperature": -1})", R"({"top_p": 1.5})",
        R"({"top_k": -1})", R"({"do_sample": "yes"})", R"([])", R"({"top_p": 1)"}) {
    GenerationDefaults generation;
    const auto status = parse_generation_config(text, 20, generation);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_THAT(status.error().message, HasSubstr("generation_config.json: ")) << text;
  }
}

TEST(Families, TokenizerConfigGivesSpellingsAndTheDefaultTemplate) {
  TextSource text;
  ASSERT_TRUE(parse_tokenizer_config(
                  R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>",
                      "add_bos_token": true,
                      "chat_template": [{"name": "tool_use", "template": "T"},
                                        {"name": "default", "template": "D"}]})",
                  text)
                  .ok());
  EXPECT_EQ(text.bos_token, "<s>");
  EXPECT_EQ(text.eos_token, "</s>");
  EXPECT_EQ(text.add_bos, true);
  EXPECT_EQ(text.chat_template, "D");
  TextSource bare;
  ASSERT_TRUE(parse_tokenizer_config(R"({"bos_token": null, "chat_template": "X"})", bare).ok());
  EXPECT_EQ(bare.bos_token, "");
  EXPECT_EQ(bare.chat_template, "X");
  EXPECT_FALSE(bare.add_bos.has_value());
}

base::Result<ModelConfig> parse_gguf(testing::GgufBuilder& builder) {
  const std::string bytes = builder.bytes();
  const auto source = memory_source("w.gguf", std::as_bytes(std::span<const char>(bytes)));
  BH_ASSIGN(const GgufFile file, read_gguf(*source, 0));
  return kLlama.from_gguf(file);
}

TEST(Families, GgufMetadataGivesTheSameConfiguration) {
  testing::GgufBuilder builder = testing::tiny_llama_gguf();
  const auto config = parse_gguf(builder);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->hidden, 16);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->vocabulary, 20);
  EXPECT_TRUE(config->qk_rows_interleaved);
  EXPECT_EQ(config->tie, TieRule::kByPresence);
}

TEST(Families, GgufKeysThatMayChangeTheNumbersAreRefused) {
  const auto error = [](auto&& add) {
    testing::GgufBuilder builder = testing::tiny_llama_gguf();
    add(builder);
    const auto config = parse_gguf(builder);
    return config.ok() ? std::string("no error") : config.error().message;
  };
  EXPECT_THAT(error([](auto& b) { b.f32("llama.logit_scale", 0.5f); }),
              HasSubstr("w.gguf: llama: logit_scale: unknown key"));
  EXPECT_THAT(error([](auto& b) { b.u32("llama.attention.sliding_window", 4); }),
              HasSubstr("attention.sliding_window"));
  EXPECT_THAT(error([](auto& b) { b.u32("llama.expert_count", 8); }),
              HasSubstr("mixture-of-experts"));
  EXPECT_THAT(error([](auto& b) { b.u32("llama.rope.dimension_count", 4); }),
              HasSubstr("rope.dimension_count"));
  EXPECT_THAT(error([](auto& b) { b.text("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("rope.scaling.type"));
  EXPECT_THAT(error([](auto& b) { b.u32("llama.attention.value_length", 16); }),
              HasSubstr("attention.value_length"));
  EXPECT_EQ(error([](auto& b) { b.u32("llama.expert_count", 0).u32("other.key", 1); }), "no error");
}

}  // namespace
}  // namespace bulkhead::model
