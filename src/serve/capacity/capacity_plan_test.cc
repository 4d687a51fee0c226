// The published figures of two public models (their configurations: tests/golden/configs/), and
// what a plan says when something does not fit.
#include "serve/capacity/capacity_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "model/testing/files.h"

namespace bulkhead::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = 1ull << 30;

std::string path_of(const std::string& name) {
  return (model::testing::golden_directory() / "configs" / (name + ".json")).string();
}

PlannedModel load(const std::string& name) {
  auto loaded = load_planned_model(path_of(name));
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return *std::move(loaded);
}

double gib(uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

// 8 ranks of 141 GiB. How much of it weights and cache took is not published: with this share both
// models come out as published.
CapacityOptions eight_ranks() {
  CapacityOptions options;
  options.memory_bytes = 141 * kGiB;
  options.memory_share = 0.824;
  options.ranks = 8;
  options.context_tokens = 21'400;
  return options;
}

CapacityPlan plan(PlannedModel model, const CapacityOptions& options) {
  auto made = plan_capacity(std::move(model), options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return *std::move(made);
}

void expect_within_one_percent(double figure, double published) {
  EXPECT_NEAR(figure, published, published * 0.01);
}

TEST(PublishedFigures, KimiHolds686kTokensIn16BitsAnd1370kIn8) {
  CapacityOptions options = eight_ranks();
  options.prefill.weights = options.decode.weights = "kimi";
  options.decode.kv = "fp8_e4m3";
  options.decode.tokens_per_second = 2192;
  options.against.tokens_per_second = 2192 / 1.41;
  options.price = 2.5;
  const CapacityPlan kimi = plan(load("kimi-k2.6"), options);
  EXPECT_NEAR(gib(kimi.decode.checkpoint_on_rank), 69.2, 0.1);
  ASSERT_TRUE(kimi.against.has_value());
  expect_within_one_percent(static_cast<double>(kimi.against->room.tokens), 686e3);
  expect_within_one_percent(static_cast<double>(kimi.decode.room.tokens), 1.37e6);
  EXPECT_EQ(kimi.against->requests, 32);
  EXPECT_NEAR(static_cast<double>(kimi.decode.requests), 64, 1);
  // 61 layers x (512 + 64) values, and an exponent for each of the two parts.
  EXPECT_EQ(kimi.against->layout.token_bytes(), 70'272u);
  EXPECT_EQ(kimi.decode.layout.token_bytes(), 61u * (576 + 2));
  EXPECT_NEAR(kimi.decode.cost / kimi.against->cost, 0.709, 0.001);
  EXPECT_NEAR(kimi.decode.cost, 2.53, 0.01);
  EXPECT_NEAR(kimi.against->cost, 3.57, 0.01);
}

TEST(PublishedFigures, GlmShrinksFrom705To421GiBAnd88To52ARank) {
  CapacityOptions options = eight_ranks();
  options.prefill.weights = "fp8";
  options.decode.weights = "kimi";
  options.decode.kv = "fp8_e4m3";
  const CapacityPlan glm = plan(load("glm-5.2"), options);
  expect_within_one_percent(gib(glm.prefill.weights.checkpoint_bytes), 705);
  expect_within_one_percent(gib(glm.decode.weights.checkpoint_bytes), 421);
  expect_within_one_percent(gib(glm.prefill.checkpoint_on_rank), 88);
  expect_within_one_percent(gib(glm.decode.checkpoint_on_rank), 52.6);
  EXPECT_NEAR(static_cast<double>(glm.decode.weights.checkpoint_bytes) /
                  static_cast<double>(glm.prefill.weights.checkpoint_bytes),
              0.597, 0.001);
}

// The published count keeps the indexer's keys of all 78 layers. GLM-5.2 shares the choice of 21 of
// them among the others, and we keep the keys of those alone.
TEST(PublishedFigures, GlmHolds1180kTokensWithTheKeysOfEveryLayersIndexer) {
  CapacityOptions options = eight_ranks();
  options.decode.weights = "kimi";
  options.decode.kv = "fp8_e4m3";
  PlannedModel every = load("glm-5.2");
  for (uint8_t& full : every.config.indexer.full_layers) full = 1;
  const CapacityPlan published = plan(every, options);
  EXPECT_NEAR(token_bytes(published.decode.layout), 55'224, 100);
  expect_within_one_percent(static_cast<double>(published.decode.room.tokens), 1.18e6);
  const CapacityPlan shared = plan(load("glm-5.2"), options);
  EXPECT_EQ(shared.decode.layout.index_layers, 21);
  EXPECT_GT(shared.decode.room.tokens, published.decode.room.tokens * 115 / 100);
}

// C099: the memory of a token follows from its format.
TEST(CapacityPlan, EqualBytesHoldTwiceTheTokensInHalfTheBits) {
  for (const char* name : {"kimi-k2.6", "glm-5.2"}) {
    CapacityOptions options = eight_ranks();
    options.prefill.weights = options.decode.weights = "kimi";
    options.decode.kv = "fp8_e4m3";
    const CapacityPlan both = plan(load(name), options);
    ASSERT_TRUE(both.against.has_value());
    const auto fp8 = static_cast<double>(both.decode.room.tokens);
    const auto bf16 = static_cast<double>(both.against->room.tokens);
    EXPECT_GE(fp8 / bf16, 1.98) << name;
    EXPECT_LE(fp8 / bf16, 2.0) << name;
    EXPECT_EQ(both.decode.transfer_bytes, 335 * both.decode.layout.page_bytes())
        << "21,400 tokens are 335 pages";
  }
}

TEST(CapacityPlan, OnePrecisionIsNotHeldAgainstItself) {
  EXPECT_FALSE(plan(load("kimi-k2.6"), eight_ranks()).against.has_value());
}

TEST(CapacityPlan, WhatDoesNotFitSaysWhyAndWhatWould) {
  CapacityOptions options = eight_ranks();
  options.prefill.weights = options.decode.weights = "kimi";
  options.ranks = 4;
  const CapacityPlan four = plan(load("kimi-k2.6"), options);
  EXPECT_THAT(four.decode.problem, AllOf(HasSubstr("the weights need 140.2 GiB"),
                                         HasSubstr("--memory"), HasSubstr("--ranks 8")));
  EXPECT_EQ(four.decode.room.tokens, 0);
  EXPECT_THAT(capacity_text(four), HasSubstr("decode does not fit: "));
  options.ranks = 8;
  options.memory_bytes = 106 * kGiB;
  options.context_tokens = 200'000;
  const CapacityPlan tight = plan(load("kimi-k2.6"), options);
  EXPECT_EQ(tight.decode.problem, "") << "16 GiB hold a request of 200,000 tokens";
  options.memory_bytes = 90 * kGiB;
  EXPECT_THAT(plan(load("kimi-k2.6"), options).decode.problem,
              AllOf(HasSubstr("one request has 200000"), HasSubstr("a shorter --context")));
}

TEST(CapacityPlan, OptionsThatMakeNoSenseAreRefusedByName) {
  const auto error = [](auto change) {
    CapacityOptions options = eight_ranks();
    change(options);
    const auto made = plan_capacity(load("kimi-k2.6"), options);
    return made.ok() ? base::Error{} : made.error();
  };
  EXPECT_EQ(error([](auto& o) { o.ranks = 3; }).field, "--ranks");
  EXPECT_EQ(error([](auto& o) { o.context_tokens = 262'145; }).field, "--context");
  EXPECT_EQ(error([](auto& o) { o.output_tokens = 262'145; }).field, "--context");
  EXPECT_EQ(error([](auto& o) { o.decode.weights = "int3"; }).field, "decode.weights");
  EXPECT_EQ(error([](auto& o) { o.prefill.kv = "fp4"; }).field, "prefill.kv");
  EXPECT_THAT(error([](auto& o) { o.prefill.kv = "fp4"; }).message, HasSubstr("auto, bf16, fp8"));
  for (const double number : {std::nan(""), HUGE_VAL, -1.0}) {
    EXPECT_EQ(error([&](auto& o) { o.memory_share = number; }).field, "--memory-fraction");
    EXPECT_EQ(error([&](auto& o) { o.price = number; }).field, "--price");
    EXPECT_EQ(error([&](auto& o) { o.prefill.tokens_per_second = number; }).field,
              "--prefill.throughput");
    EXPECT_EQ(error([&](auto& o) { o.decode.tokens_per_second = number; }).field,
              "--decode.throughput");
    EXPECT_EQ(error([&](auto& o) { o.against.tokens_per_second = number; }).field,
              "--against.throughput");
  }
}

TEST(CapacityPlan, TextNamesTheSourceOfEveryFigureAndJsonTheBytes) {
  CapacityOptions options = eight_ranks();
  options.prefill.weights = options.decode.weights = "kimi";
  options.decode.kv = "fp8_e4m3";
  options.decode.tokens_per_second = 2192;
  options.price = 2.5;
  const CapacityPlan made = plan(load("kimi-k2.6"), options);
  const std::string text = capacity_text(made);
  EXPECT_THAT(text, AllOf(HasSubstr("latent, whole on each of 8 ranks"), HasSubstr("derived"),
                          HasSubstr("given, measured by you"), HasSubstr("decode / against")));
  const boost::json::value json = boost::json::parse(capacity_json(made));
  const auto& decode = json.at("decode").as_object();
  EXPECT_EQ(decode.at("tokens").as_int64(), made.decode.room.tokens);
  EXPECT_EQ(decode.at("kv").as_string(), "fp8_e4m3");
  EXPECT_TRUE(decode.at("fits").as_bool());
  EXPECT_TRUE(json.at("prefill").at("cost_per_million_tokens").is_null());
}

TEST(CapacityPlan, WhatNobodyGaveIsNotCalledGiven) {
  CapacityOptions options;
  options.memory_bytes = 2048 * kGiB;
  options.machines_memory = true;
  const CapacityPlan open = plan(load("kimi-k2.6"), options);
  std::string text = capacity_text(open);
  EXPECT_THAT(text, Not(HasSubstr("given")));
  EXPECT_THAT(text, AllOf(HasSubstr("2.0 TiB (this machine's), 85 % of it for weights and cache "
                                    "(default)"),
                          HasSubstr("262,144 tokens of prompt (what the model's context leaves), 0 "
                                    "of answer (default)"),
                          HasSubstr("as stored\n"), HasSubstr("default\n")));
  EXPECT_THAT(capacity_json(open), AllOf(HasSubstr("\"memory_bytes_source\":\"machine\""),
                                         HasSubstr("\"context_tokens_source\":\"model\"")));
  options = eight_ranks();
  options.decode.weights = "int4";
  options.decode.kv = "fp8_e4m3";
  options.output_tokens = 100;
  text = capacity_text(plan(load("kimi-k2.6"), options));
  EXPECT_THAT(text,
              AllOf(HasSubstr("141.0 GiB (given), 82.4 % of it for weights and cache (given)"),
                    HasSubstr("21,400 tokens of prompt (given), 100 of answer (given)"),
                    HasSubstr("prefill as stored, decode given, against as prefill\n"),
                    HasSubstr("prefill default, decode given, against as prefill\n")));
}

TEST(PlannedModel, ACheckpointsOwnBytesAreReadFromItsFiles) {
  const model::testing::TemporaryDirectory directory;
  directory.write("config.json", model::testing::tiny_llama_config());
  const auto tensors = model::testing::tiny_llama_tensors();
  directory.write("model.safetensors", model::testing::safetensors_bytes(tensors));
  const auto loaded = load_planned_model(directory.path().string());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  uint64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.data.size();
  EXPECT_EQ(loaded->tensor_bytes, bytes);
  EXPECT_EQ(loaded->stored.text(), "bf16");
  CapacityOptions options;
  options.memory_bytes = kGiB;
  options.decode.weights = "int4";
  const CapacityPlan made = plan(*loaded, options);
  EXPECT_TRUE(made.prefill.weights.from_files);
  EXPECT_EQ(made.prefill.weights.checkpoint_bytes, made.prefill.weights.stored.bytes());
  EXPECT_FALSE(made.decode.weights.from_files);
  EXPECT_LT(made.decode.weights.checkpoint_bytes, bytes);
}

TEST(PlannedModel, StoredWeightsAreWhatTheConfigurationSays) {
  const auto stored = [](std::string_view quantisation) {
    const model::testing::TemporaryDirectory directory;
    boost::json::object config =
        boost::json::parse(model::testing::tiny_llama_config()).as_object();
    if (!quantisation.empty()) config["quantization_config"] = boost::json::parse(quantisation);
    directory.write("config.json", boost::json::serialize(config));
    const auto loaded = load_planned_model(directory.path().string());
    return loaded.ok() ? loaded->stored.text() : loaded.error().message;
  };
  EXPECT_EQ(stored(""), "bf16");
  EXPECT_EQ(stored(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"), "fp8");
  EXPECT_EQ(stored(R"({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"})"),
            "int4");
  EXPECT_THAT(stored(R"({"quant_method": "fp3"})"), HasSubstr("fp3"));
}

TEST(PlannedModel, HostileConfigurationsAreRefusedPolitely) {
  const auto error = [](std::string_view text) {
    const model::testing::TemporaryDirectory directory;
    directory.write("config.json", text);
    const auto loaded = load_planned_model((directory.path() / "config.json").string());
    return loaded.ok() ? std::string("none") : loaded.error().message;
  };
  EXPECT_THAT(error(""), HasSubstr("config.json"));
  EXPECT_THAT(error("[1]"), HasSubstr("config.json"));
  EXPECT_THAT(error("{}"), HasSubstr("model_type"));
  EXPECT_THAT(error(std::string(5u << 20, ' ')), HasSubstr("config.json"));
  EXPECT_THAT(error(std::string(100'000, '[')), HasSubstr("config.json"));
  // In range one by one, and 13 million tensors together.
  boost::json::object huge = boost::json::parse(model::testing::tiny_llama_config()).as_object();
  huge["model_type"] = "qwen3_moe";
  huge["num_hidden_layers"] = 1024;
  huge["num_experts"] = 4096;
  huge["num_experts_per_tok"] = 2;
  huge["moe_intermediate_size"] = 64;
  EXPECT_THAT(error(boost::json::serialize(huge)),
              AllOf(HasSubstr("1024 layers of 4096 experts"), Not(HasSubstr("none"))));
  EXPECT_THAT(load_planned_model("/nowhere/config.json").error().message, HasSubstr("config.json"));
}

}  // namespace
}  // namespace bulkhead::serve
