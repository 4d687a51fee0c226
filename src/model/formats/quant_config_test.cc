#include "model/formats/quant_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace bulkhead::model::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

base::Result<QuantConfig> parse(std::string_view settings) {
  return parse_quant_config("config.json",
                            fmt::format(R"({{"quantization_config": {}}})", settings));
}

// The message, and that the code says "well formed, but not ours".
std::string refusal(std::string_view settings) {
  const auto config = parse(settings);
  if (config.ok()) return "no error";
  EXPECT_EQ(config.error().code, base::ErrorCode::kUnsupported) << config.error().message;
  return config.error().message;
}

constexpr std::string_view kFp8 = R"({"quant_method": "fp8", "weight_block_size": [128, 64],
    "fmt": "e4m3", "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
    "modules_to_not_convert": ["lm_head"])";

// What Kimi K2.5 says, with `weights`, `group` and `top` added.
std::string packed(std::string_view weights = "", std::string_view group = "",
                   std::string_view top = "") {
  return fmt::format(
      R"({{"quant_method": "compressed-tensors", "format": "pack-quantized",
          "quantization_status": "compressed", "kv_cache_scheme": null, "ignore": ["lm_head"],
          "config_groups": {{"group_0": {{"targets": ["Linear"], "input_activations": null,
            "output_activations": null {1}, "weights": {{"actorder": null, "dynamic": false,
            "group_size": 32, "num_bits": 4, "strategy": "group", "symmetric": true, "type": "int",
            "observer": "minmax", "block_structure": null {0}}}}}}} {2}}})",
      weights, group, top);
}

TEST(QuantConfig, TheFourFormatsAreReadAtEitherPlace) {
  const auto fp8 = parse(std::string(kFp8) + "}");
  ASSERT_TRUE(fp8.ok()) << fp8.error().message;
  EXPECT_EQ(fp8->method, QuantMethod::kFp8);
  EXPECT_EQ(fp8->block_rows, 128u);
  EXPECT_EQ(fp8->block_columns, 64u);
  const auto kimi = parse_quant_config(
      "config.json", fmt::format(R"({{"text_config": {{"quantization_config": {}}}}})", packed()));
  ASSERT_TRUE(kimi.ok()) << kimi.error().message;
  EXPECT_EQ(kimi->method, QuantMethod::kCompressedTensors);
  ASSERT_EQ(kimi->groups.size(), 1u);
  EXPECT_EQ(kimi->groups[0].columns, 32u);
  EXPECT_TRUE(kimi->groups[0].symmetric);
  const auto awq = parse(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 128,
                             "version": "GEMM", "zero_point": true})");
  ASSERT_TRUE(awq.ok()) << awq.error().message;
  EXPECT_EQ(awq->method, QuantMethod::kAwq);
  EXPECT_EQ(awq->groups[0].columns, 128u);
  const auto gptq = parse(R"({"quant_method": "gptq", "bits": 4, "group_size": -1, "sym": true,
                              "desc_act": true, "checkpoint_format": "gptq_v2"})");
  ASSERT_TRUE(gptq.ok()) << gptq.error().message;
  EXPECT_EQ(gptq->method, QuantMethod::kGptq);
  EXPECT_EQ(gptq->groups[0].columns, 0u);
  EXPECT_FALSE(gptq->zeros_less_one);
  EXPECT_TRUE(gptq->ordered);
  const auto first = parse(R"({"quant_method": "gptq", "bits": 4, "group_size": 128})");
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_TRUE(first->zeros_less_one);
  EXPECT_EQ(parse_quant_config("config.json", R"({"quantization_config": null})")->method,
            QuantMethod::kNone);
}

TEST(QuantConfig, IsTakenOutOfTheConfigurationThatAFamilyReads) {
  boost::json::object config;
  boost::json::object settings;
  settings["quant_method"] = "gptq";
  settings["bits"] = 4;
  settings["group_size"] = 128;
  config["hidden_size"] = 8;
  config["quantization_config"] = settings;
  const auto taken = take_quant_config("config.json", config);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_EQ(taken->method, QuantMethod::kGptq);
  EXPECT_FALSE(config.contains("quantization_config"));
  EXPECT_TRUE(config.contains("hidden_size"));
}

TEST(QuantConfig, AMethodThatIsNotReadIsNamedWithThoseThatAre) {
  const std::pair<const char*, const char*> methods[] = {
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true})", "bitsandbytes"},
      {R"({"quant_method": "mxfp4"})", "mxfp4"},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})", "modelopt NVFP4"},
      {R"({"quant_method": "torchao"})", "torchao"}};
  for (const auto& [settings, name] : methods) {
    EXPECT_THAT(
        refusal(settings),
        AllOf(HasSubstr("config.json: quantization_config: quant_method: \""), HasSubstr(name),
              HasSubstr("cannot be loaded; fp8 (e4m3 in blocks), compressed-tensors (")));
  }
  EXPECT_THAT(refusal("{}"), HasSubstr("quant_method: missing; fp8"));
}

TEST(QuantConfig, Fp8BlocksOfCompressedTensorsAreReadWhateverActivationsOthersUse) {
  const auto with = [](std::string_view weights, std::string_view group = "") {
    return fmt::format(R"({{"quant_method": "compressed-tensors", "format": "float-quantized",
        "config_groups": {{"group_0": {{"targets": ["Linear"], "weights": {{"type": "float",
        "num_bits": 8, "strategy": "block", "block_structure": [128, 64] {}}} {}}}}}}})",
                       weights, group);
  };
  const auto blocks = parse(with("", R"(, "input_activations": {"num_bits": 8, "dynamic": true})"));
  ASSERT_TRUE(blocks.ok()) << blocks.error().message;
  EXPECT_EQ(blocks->method, QuantMethod::kCompressedTensors);
  EXPECT_EQ(blocks->block_rows, 128u);
  EXPECT_EQ(blocks->block_columns, 64u);
  EXPECT_TRUE(blocks->groups.empty());
  EXPECT_THAT(refusal(with("", R"(, "input_activations": {"num_bits": 8, "dynamic": false})")),
              HasSubstr("activations with stored scales"));
  EXPECT_THAT(refusal(with(R"(, "strategy": "channel")")), HasSubstr("strategy: \"channel\""));
  EXPECT_THAT(refusal(with(R"(, "num_bits": 4)")), HasSubstr("4 bits cannot be loaded; 8 can"));
  EXPECT_THAT(refusal(with(R"(, "symmetric": false)")), HasSubstr("symmetric: false"));
  EXPECT_THAT(parse(with(R"(, "block_structure": [0, 1])")).error().message,
              HasSubstr("block_structure: must be"));
}

// C025: the whole description is looked at, not only bits and group.
TEST(QuantConfig, AVariantOfAMethodThatIsNotReadIsNamed) {
  EXPECT_EQ(refusal(packed()), "no error");
  EXPECT_EQ(refusal(packed(R"(, "actorder": "weight")")), "no error");
  EXPECT_EQ(refusal(packed(R"(, "symmetric": false)")), "no error");
  EXPECT_EQ(refusal(packed(R"(, "strategy": "channel", "group_size": null)")), "no error");
  EXPECT_THAT(refusal(packed(R"(, "num_bits": 8)")),
              HasSubstr("num_bits: 8 bits cannot be loaded"));
  EXPECT_THAT(refusal(packed(R"(, "type": "float")")), HasSubstr("type: \"float\" cannot"));
  EXPECT_THAT(refusal(packed(R"(, "actorder": "group")")), HasSubstr("actorder: groups ordered"));
  EXPECT_THAT(refusal(packed(R"(, "strategy": "tensor")")), HasSubstr("strategy: \"tensor\""));
  EXPECT_THAT(refusal(packed(R"(, "group_size": 12)")), HasSubstr("12 is no multiple of 8"));
  EXPECT_THAT(refusal(packed(R"(, "dynamic": true)")), HasSubstr("dynamic: must be false"));
  EXPECT_THAT(refusal(packed("", R"(, "format": "nvfp4-pack-quantized")")),
              HasSubstr("group_0: format: \"nvfp4-pack-quantized\" cannot be loaded"));
  EXPECT_THAT(refusal(packed("", R"(, "input_activations": {"num_bits": 8})")),
              HasSubstr("input_activations: quantised activations cannot be computed"));
  EXPECT_THAT(refusal(packed("", "", R"(, "format": "marlin-24")")),
              HasSubstr("format: \"marlin-24\" cannot be loaded; \"pack-quantized\", "));
  EXPECT_THAT(refusal(packed("", "", R"(, "kv_cache_scheme": {"num_bits": 8})")),
              HasSubstr("kv_cache_scheme"));
  EXPECT_THAT(refusal(packed("", "", R"(, "quantization_status": "frozen")")),
              HasSubstr("quantization_status: \"frozen\""));
  EXPECT_THAT(refusal(packed("", "", R"(, "sparsity_config": {"format": "sparse-24-bitmask"})")),
              HasSubstr("sparsity_config: format: \"sparse-24-bitmask\""));
  EXPECT_THAT(refusal(packed("", "", R"(, "transform_config": {"config_groups": {"a": {}}})")),
              HasSubstr("rotated weights"));
  EXPECT_THAT(refusal(R"({"quant_method": "fp8"})"), HasSubstr("weight_block_size: missing"));
  EXPECT_THAT(refusal(std::string(kFp8) + R"(, "fmt": "e5m2"})"), HasSubstr("fmt: \"e5m2\""));
  EXPECT_THAT(refusal(std::string(kFp8) + R"(, "activation_scheme": "static"})"),
              HasSubstr("activation_scheme: \"static\""));
  const std::string awq = R"({"quant_method": "awq", "bits": 4, "group_size": 128)";
  EXPECT_THAT(refusal(awq + R"(, "version": "gemv"})"), HasSubstr("version: \"gemv\""));
  EXPECT_THAT(refusal(awq + R"(, "zero_point": false})"), HasSubstr("zero_point: false"));
  EXPECT_THAT(refusal(awq + R"(, "bits": 3})"), HasSubstr("bits: 3 bits cannot be loaded; 4 can"));
  const std::string gptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 128)";
  EXPECT_THAT(refusal(gptq + R"(, "checkpoint_format": "marlin"})"), HasSubstr("\"marlin\""));
  EXPECT_THAT(refusal(gptq + R"(, "dynamic": {"-:.*gate.*": {}}})"), HasSubstr("dynamic"));
  EXPECT_THAT(refusal(gptq + R"(, "pack_dtype": "int64"})"), HasSubstr("pack_dtype: \"int64\""));
}

TEST(QuantConfig, ASettingOfTheWrongKindIsAnErrorThatNamesIt) {
  const std::pair<std::string, const char*> faults[] = {
      {R"({"quant_method": 4})", "quant_method: must be a string"},
      {R"([1])", "quantization_config: must be an object"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "weight_block_size: must be"},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "weight_block_size: must be"},
      {R"({"quant_method": "fp8", "weight_block_size": [1e3, 128]})", "weight_block_size: must be"},
      {R"({"quant_method": "gptq", "bits": "4"})", "bits: must be a whole number"},
      {R"({"quant_method": "awq", "bits": 4})", "group_size: missing"},
      {R"({"quant_method": "awq", "bits": 4, "group_size": 0})", "group_size: must be"},
      {R"({"quant_method": "compressed-tensors"})", "config_groups: must hold from 1"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": 1}})", "a: must be an"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": {}}})",
       "weights: missing"}};
  for (const auto& [settings, message] : faults) {
    const auto config = parse(settings);
    ASSERT_FALSE(config.ok()) << settings;
    EXPECT_THAT(config.error().message, HasSubstr(message));
  }
  const std::string twice = fmt::format(
      R"({{"quantization_config": {0}, "text_config": {{"quantization_config": {0}}}}})", packed());
  EXPECT_THAT(parse_quant_config("config.json", twice).error().message,
              HasSubstr("stands at the top and in text_config"));
}

std::string real_config(const std::string& name) {
  std::ifstream file(std::filesystem::path(std::getenv("BULKHEAD_SHARED")) /
                     ("data/models/configs/" + name + ".json"));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(QuantConfig, PublishedConfigurationsAreReadOrRefusedByName) {
  if (std::getenv("BULKHEAD_SHARED") == nullptr) {
    GTEST_SKIP() << "../shared with published configurations is absent (BULKHEAD_SHARED)";
  }
  const std::pair<const char*, QuantMethod> read[] = {
      {"deepseek-ai--DeepSeek-V3", QuantMethod::kFp8},
      {"deepseek-ai--DeepSeek-V3.2", QuantMethod::kFp8},
      {"moonshotai--Kimi-K2-Instruct", QuantMethod::kFp8},
      {"zai-org--GLM-5.2-FP8", QuantMethod::kFp8},
      {"Qwen--Qwen3-30B-A3B-FP8", QuantMethod::kFp8},
      {"moonshotai--Kimi-K2.5", QuantMethod::kCompressedTensors},
      {"zai-org--GLM-5.2", QuantMethod::kNone},
      {"Qwen--Qwen3-8B", QuantMethod::kNone}};
  for (const auto& [name, method] : read) {
    const auto config = parse_quant_config("config.json", real_config(name));
    ASSERT_TRUE(config.ok()) << name << ": " << config.error().message;
    EXPECT_EQ(config->method, method) << name;
  }
  const std::pair<const char*, const char*> refused[] = {
      {"nvidia--Kimi-K2.6-NVFP4", "NVFP4"},
      {"nvidia--GLM-5.2-NVFP4", "NVFP4"},
      {"moonshotai--Kimi-K3", "\"mxfp4-pack-quantized\" cannot be loaded"}};
  for (const auto& [name, message] : refused) {
    const auto config = parse_quant_config("config.json", real_config(name));
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_EQ(config.error().code, base::ErrorCode::kUnsupported) << name;
    EXPECT_THAT(config.error().message, HasSubstr(message)) << name;
  }
}

}  // namespace
}  // namespace bulkhead::model::formats
