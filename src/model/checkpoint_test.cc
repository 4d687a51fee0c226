#include "model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/packed_weights.h"
#include "model/model_tensors.h"
#include "model/testing/files.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FileTensor;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

constexpr std::string_view kWeights = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

void write_tiny(const TemporaryDirectory& directory, const std::vector<FileTensor>& tensors) {
  directory.write("config.json", testing::tiny_llama_config());
  directory.write(kWeights, testing::safetensors_bytes(tensors));
}

base::Status load(const std::filesystem::path& path) {
  BH_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  device::ThreadPool pool({.threads = 2});
  BH_ASSIGN(const auto kernels, kernels::select_kernels(device::detect_cpu(), device::Isa::kRef));
  auto decoder = load_decoder(checkpoint, {}, kernels, pool, {.rows_max = 4}, {});
  if (!decoder.ok()) return std::move(decoder).error();
  return {};
}

std::string load_error(const std::filesystem::path& path) {
  const base::Status status = load(path);
  return status.ok() ? "no error" : status.error().message;
}

// What loading says after `change` was made to the tensors of a good file.
template <typename Change>
std::string error_after(Change&& change) {
  const TemporaryDirectory directory;
  std::vector<FileTensor> tensors = testing::tiny_llama_tensors();
  change(tensors);
  write_tiny(directory, tensors);
  return load_error(directory.path());
}

FileTensor& named(std::vector<FileTensor>& tensors, std::string_view name) {
  for (FileTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors.front();
}

TEST(Checkpoint, ADirectoryIsOpenedWithAllItsSideFiles) {
  const TemporaryDirectory directory;
  write_tiny(directory, testing::tiny_llama_tensors());
  directory.write("generation_config.json", R"({"eos_token_id": 3, "temperature": 0.5})");
  directory.write("tokenizer_config.json", R"({"eos_token": "</s>", "chat_template": "old"})");
  directory.write("chat_template.jinja", "new");
  directory.write("tokenizer.json", "{}");
  const auto checkpoint = Checkpoint::open(directory.path() / "");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->name(), directory.path().filename().string());
  EXPECT_EQ(checkpoint->text().chat_template, "new");
  EXPECT_EQ(checkpoint->text().eos_token, "</s>");
  EXPECT_EQ(checkpoint->text().tokenizer_json, "{}");
  EXPECT_THAT(checkpoint->generation().eos_ids, ElementsAre(2, 3));
  EXPECT_EQ(checkpoint->tensors().size(), 12u);
  const CheckpointSummary summary = checkpoint->describe();
  EXPECT_EQ(summary.parameters, 2 * 20 * 16 + 3 * 16 + 2 * 16 * 16 + 2 * 8 * 16 + 3 * 32 * 16u);
  EXPECT_EQ(summary.tensor_bytes, 2 * summary.parameters);
  ASSERT_EQ(summary.types.size(), 1u);
  EXPECT_EQ(summary.types[0].type, "BF16");
  EXPECT_EQ(summary.tokenizer, "tokenizer.json");
  EXPECT_FALSE(summary.tied);
  EXPECT_TRUE(summary.chat_template);
}

TEST(Checkpoint, AGgufFileIsOpenedWithItsVocabulary) {
  const TemporaryDirectory directory;
  testing::GgufBuilder builder = testing::tiny_llama_gguf();
  builder.text("tokenizer.ggml.pre", "smollm").texts("tokenizer.ggml.merges", {"a b"});
  builder.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eot_token_id", 5);
  builder.boolean("tokenizer.ggml.add_bos_token", 0).text("tokenizer.chat_template", "T");
  directory.write("tiny.Q4.gguf", builder.bytes());
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.Q4.gguf");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->name(), "tiny.Q4");
  const TextSource& text = checkpoint->text();
  ASSERT_TRUE(text.gguf.has_value());
  EXPECT_EQ(text.gguf->tokens.size(), 20u);
  EXPECT_EQ(text.gguf->types, std::vector<int32_t>(20, 1));
  EXPECT_EQ(text.gguf->pre, "smollm");
  EXPECT_EQ(text.gguf->bos, 1);
  EXPECT_EQ(text.bos_token, "t1");
  EXPECT_EQ(text.eos_token, "t2");
  EXPECT_EQ(text.add_bos, false);
  EXPECT_EQ(text.chat_template, "T");
  EXPECT_THAT(checkpoint->generation().eos_ids, ElementsAre(2, 5));
  EXPECT_EQ(checkpoint->describe().tokenizer, "GGUF gpt2/smollm");
}

TEST(Checkpoint, GgufVocabulariesThatContradictThemselvesAreErrors) {
  const auto error = [](auto&& add) {
    const TemporaryDirectory directory;
    testing::GgufBuilder builder = testing::tiny_llama_gguf();
    add(builder);
    directory.write("w.gguf", builder.bytes());
    return load_error(directory.path() / "w.gguf");
  };
  EXPECT_EQ(error([](auto&) {}), "no error");
  EXPECT_THAT(error([](auto& b) { b.u32("tokenizer.ggml.bos_token_id", 20); }),
              HasSubstr("w.gguf: tokenizer.ggml.bos_token_id: must be a token id from 0 to 19"));
  EXPECT_THAT(error([](auto& b) { b.texts("tokenizer.ggml.token_type", {"1"}); }),
              HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(error([](auto& b) { b.u32("tokenizer.ggml.merges", 1); }),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(error([](auto& b) { b.u32("llama.vocab_size", 21); }),
              HasSubstr("\"token_embd.weight\" has shape [20, 16], the configuration wants"));
  EXPECT_THAT(error([](auto& b) { b.raw("split.count", 2, testing::le(uint16_t{2})); }),
              HasSubstr("split.count"));
  EXPECT_THAT(error([](auto& b) { b.tensor("extra", {4}, 0, std::string(16, '\0')); }),
              HasSubstr("tensor \"extra\" has no place"));
}

TEST(Checkpoint, WhatIsNotACheckpointSaysWhatIsMissing) {
  const TemporaryDirectory directory;
  EXPECT_THAT(load_error(directory.path() / "nothing"), HasSubstr("no such checkpoint"));
  EXPECT_THAT(load_error(directory.path()), HasSubstr("config.json: No such file"));
  directory.write("config.json", testing::tiny_llama_config());
  EXPECT_THAT(load_error(directory.path()), HasSubstr("neither model.safetensors nor"));
  ASSERT_EQ(::mkfifo((directory.path() / "pipe.gguf").c_str(), 0600), 0);
  EXPECT_THAT(load_error(directory.path() / "pipe.gguf"), HasSubstr("not a regular file"));
  directory.write("text.gguf", "hello");
  EXPECT_THAT(load_error(directory.path() / "text.gguf"), HasSubstr("not a GGUF file"));
  std::filesystem::create_directory(directory.path() / kWeights);
  EXPECT_THAT(load_error(directory.path()), HasSubstr("not a regular file"));
}

TEST(Checkpoint, EachBrokenTensorGivesOneErrorThatNamesFileAndTensor) {
  EXPECT_EQ(error_after([](auto&) {}), "no error");
  EXPECT_THAT(error_after([](auto& t) { t.erase(t.begin() + 3); }),
              HasSubstr("tensor \"model.layers.0.self_attn.k_proj.weight\" is missing"));
  EXPECT_THAT(error_after([](auto& t) {
                t.push_back({"model.layers.1.mlp.up_proj.weight", "BF16", {1}, "xx"});
              }),
              AllOf(HasSubstr("model.safetensors: tensor \"model.layers.1.mlp.up_proj.weight\""),
                    HasSubstr("has no place")));
  EXPECT_THAT(error_after([](auto& t) {
                named(t, "model.layers.0.self_attn.q_proj.weight").shape = {8, 32};
              }),
              HasSubstr("has shape [8, 32], the configuration wants [16, 16]"));
  EXPECT_THAT(error_after([](auto& t) {
                named(t, "model.layers.0.mlp.down_proj.weight").shape = {32, 16};
              }),
              HasSubstr("has shape [32, 16], the configuration wants [16, 32]"));
  EXPECT_THAT(error_after([](auto& t) { named(t, "model.norm.weight").type = "I16"; }),
              HasSubstr("tensor \"model.norm.weight\" is I16"));
  EXPECT_THAT(
      error_after([](auto& t) {
        t.push_back({"model.layers.0.self_attn.q_proj.bias", "BF16", {16}, std::string(32, '\0')});
      }),
      HasSubstr("q_proj.bias\" has no place"));
  EXPECT_EQ(
      error_after([](auto& t) {
        t.push_back(
            {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {4}, std::string(16, '\0')});
      }),
      "no error");
}

TEST(Checkpoint, ExpertsAreMatchedOneByOne) {
  const auto source = testing::golden_directory() / "models" / "glm4_moe";
  const auto match_with = [&](std::string_view key, int value) {
    const testing::TemporaryDirectory directory;
    std::filesystem::copy(source / "model.safetensors", directory.path() / "model.safetensors");
    std::ifstream in(source / "config.json");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    boost::json::object config = boost::json::parse(text).as_object();
    config[boost::json::string_view(key.data(), key.size())] = value;
    directory.write("config.json", boost::json::serialize(config));
    const auto checkpoint = Checkpoint::open(directory.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto bytes = weight_bytes(*checkpoint, {});
    return bytes.ok() ? std::string() : bytes.error().message;
  };
  EXPECT_EQ(match_with("n_routed_experts", 8), "");
  EXPECT_THAT(match_with("n_routed_experts", 10),
              HasSubstr("\"model.layers.1.mlp.gate.weight\" has shape [8, 64]"));
  EXPECT_THAT(match_with("moe_intermediate_size", 41),
              HasSubstr("\"model.layers.1.mlp.experts.0.gate_proj.weight\" has shape [40, 64]"));
  EXPECT_THAT(match_with("n_shared_experts", 2), HasSubstr("shared_experts"));
  EXPECT_THAT(match_with("first_k_dense_replace", 0),
              HasSubstr("\"model.layers.0.mlp.gate.weight\" is missing"));
}

TEST(Checkpoint, ValuesThatAreNotFiniteAreErrorsThatNameTheByte) {
  const std::string nan = testing::le(uint16_t{0x7fc0});
  const std::string infinity = testing::le(uint16_t{0xff80});
  const std::string error = error_after(
      [&](auto& t) { named(t, "model.layers.0.mlp.up_proj.weight").data.replace(2 * 33, 2, nan); });
  EXPECT_THAT(error, AllOf(HasSubstr("model.safetensors: byte "),
                           HasSubstr("up_proj.weight\": element 33 is not finite")));
  EXPECT_THAT(error_after([&](auto& t) { named(t, "model.norm.weight").data.replace(0, 2, nan); }),
              HasSubstr("\"model.norm.weight\": element 0 is not finite"));
  EXPECT_THAT(
      error_after([&](auto& t) { named(t, "lm_head.weight").data.replace(8, 2, infinity); }),
      HasSubstr("\"lm_head.weight\": element 4 is not finite"));
  // The largest F32 rounds to infinity in BF16.
  EXPECT_THAT(error_after([&](auto& t) {
                FileTensor& head = named(t, "lm_head.weight");
                head.type = "F32";
                head.data = std::string(20 * 16 * 4, '\0');
                head.data.replace(4, 4, testing::le(3.4028235e38f));
              }),
              HasSubstr("\"lm_head.weight\": element 1 is not finite in BF16"));
}

// C020
TEST(Checkpoint, ANotFiniteBlockScaleIsAnErrorThatNamesItsBlock) {
  const auto error = [](size_t broken_block, std::string_view scale) {
    std::string down;  // 16 rows of one Q8_0 block
    for (size_t i = 0; i < 16; ++i) {
      down += testing::le(uint16_t{0x2e66}) + std::string(32, static_cast<char>(i * 3));
    }
    down.replace(broken_block * 34, 2, scale);
    const TemporaryDirectory directory;
    directory.write("w.gguf", testing::tiny_llama_gguf(down).bytes());
    return load_error(directory.path() / "w.gguf");
  };
  EXPECT_EQ(error(3, testing::le(uint16_t{0x2e66})), "no error");
  for (const uint16_t scale : {uint16_t{0x7e00}, uint16_t{0x7c00}}) {  // NaN, infinity
    EXPECT_THAT(error(3, testing::le(scale)),
                AllOf(HasSubstr("w.gguf: byte "),
                      HasSubstr("\"blk.0.ffn_down.weight\": element 96 is not finite")));
  }
}

// Opens what a mutation made of a checkpoint and reads every tensor of a match: anything but a
// crash will do, and a message where it fails.
void expect_error_or_model(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  if (!checkpoint.ok()) {
    EXPECT_FALSE(checkpoint.error().message.empty());
    return;
  }
  const auto match = match_tensors(*checkpoint);
  if (!match.ok()) {
    EXPECT_FALSE(match.error().message.empty());
    return;
  }
  for (const MatchedTensor& tensor : match->tensors) {
    std::vector<std::byte> bytes(tensor.source->bytes);
    EXPECT_TRUE(checkpoint->read(*tensor.source, 0, bytes).ok());
  }
}

TEST(Checkpoint, EveryFlippedByteOfAHeaderIsAnErrorOrStillAModel) {
  const TemporaryDirectory directory;
  directory.write("config.json", testing::tiny_llama_config());
  const std::string weights = testing::safetensors_bytes(testing::tiny_llama_tensors());
  const std::string gguf = testing::tiny_llama_gguf().bytes();
  directory.write(kWeights, weights);
  directory.write("w.gguf", gguf);
  const size_t header = 8 + testing::safetensors_header(testing::tiny_llama_tensors()).size();
  const size_t table = gguf.size() - weights.size() + header;
  const auto flip_each = [&](std::string_view file, const std::string& bytes, size_t count,
                             const std::filesystem::path& checkpoint) {
    for (const char mask : {'\x01', '\x20', '\x80'}) {
      for (size_t at = 0; at < count; ++at) {
        directory.patch(file, at, static_cast<char>(bytes[at] ^ mask));
        expect_error_or_model(checkpoint);
        directory.patch(file, at, bytes[at]);
      }
    }
  };
  flip_each(kWeights, weights, header, directory.path());
  flip_each("w.gguf", gguf, table, directory.path() / "w.gguf");
}

// The four cases of tie flag and head.
std::string tie_error(bool flag, bool with_head, bool equal_head, bool with_embedding = true) {
  const TemporaryDirectory directory;
  std::string config = testing::tiny_llama_config();
  if (flag)
    config.replace(config.find("\"tie_word_embeddings\": false"), 28,
                   "\"tie_word_embeddings\": true ");
  std::vector<FileTensor> tensors = testing::tiny_llama_tensors();
  if (equal_head) tensors.back().data = tensors.front().data;
  if (!with_head) tensors.pop_back();
  if (!with_embedding) tensors.erase(tensors.begin());
  directory.write("config.json", config);
  directory.write(kWeights, testing::safetensors_bytes(tensors));
  return load_error(directory.path());
}

// C214, C215
TEST(Checkpoint, TheTieRuleIsHeldToTheTensorsPresent) {
  EXPECT_EQ(tie_error(true, false, false), "no error");
  EXPECT_EQ(tie_error(true, true, true), "no error");
  EXPECT_EQ(tie_error(true, true, false), "no error");
  EXPECT_EQ(tie_error(true, true, false, false), "no error");
  EXPECT_EQ(tie_error(false, true, false), "no error");
  EXPECT_THAT(tie_error(false, false, false),
              AllOf(HasSubstr("\"lm_head.weight\" is missing"), HasSubstr("tie_word_embeddings")));
  EXPECT_THAT(tie_error(true, false, false, false), HasSubstr("is missing"));
}

// C214
TEST(Checkpoint, TiedModelsHoldOneTableAndUntiedOnesTwo) {
  const auto bytes = [](bool equal_head) {
    const TemporaryDirectory directory;
    std::vector<FileTensor> tensors = testing::tiny_llama_tensors();
    if (equal_head) tensors.back().data = tensors.front().data;
    write_tiny(directory, tensors);
    std::string config = testing::tiny_llama_config();
    config.replace(config.find("false"), 5, "true ");
    directory.write("config.json", config);
    return *weight_bytes(*Checkpoint::open(directory.path()), {});
  };
  EXPECT_EQ(bytes(false) - bytes(true), kernels::packed_bytes(20, 16));
}

// A checkpoint of two shards; `change` may edit files before it is opened.
template <typename Change>
std::string shard_error(Change&& change) {
  const TemporaryDirectory directory;
  const std::vector<FileTensor> tensors = testing::tiny_llama_tensors();
  const std::vector<FileTensor> first(tensors.begin(), tensors.begin() + 5);
  const std::vector<FileTensor> second(tensors.begin() + 5, tensors.end());
  std::string index = "{\"weight_map\": {";
  for (size_t i = 0; i < tensors.size(); ++i) {
    index +=
        (i > 0 ? ", \"" : "\"") + tensors[i].name + "\": \"" + (i < 5 ? "a.st" : "b.st") + "\"";
  }
  directory.write("config.json", testing::tiny_llama_config());
  directory.write(kIndex, index + "}}");
  directory.write("a.st", testing::safetensors_bytes(first));
  directory.write("b.st", testing::safetensors_bytes(second));
  change(directory);
  return load_error(directory.path());
}

void replace_in(const TemporaryDirectory& directory, std::string_view file, std::string_view from,
                std::string_view to) {
  std::string text = directory.read(file);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  directory.write(file, text);
}

// C207
TEST(Checkpoint, ShardsAndIndexMustAgreeTensorByTensor) {
  EXPECT_EQ(shard_error([](const auto&) {}), "no error");
  EXPECT_THAT(shard_error([](const auto& d) { std::filesystem::remove(d.path() / "b.st"); }),
              HasSubstr("b.st: No such file"));
  EXPECT_THAT(shard_error([](const auto& d) {
                replace_in(d, kIndex, "\"lm_head.weight\": \"b.st\"",
                           "\"lm_head.weight\": \"a.st\"");
              }),
              HasSubstr("a.st: tensor \"lm_head.weight\" should be in this file"));
  EXPECT_THAT(shard_error([](const auto& d) {
                replace_in(d, kIndex, ", \"lm_head.weight\": \"b.st\"", "");
              }),
              HasSubstr("b.st: tensor \"lm_head.weight\" is in this file, but"));
  EXPECT_THAT(shard_error([](const auto& d) {
                replace_in(d, kIndex, "\"lm_head.weight\": \"b.st\"",
                           "\"lm_head.weight\": \"b.st\", \"more\": \"b.st\"");
              }),
              HasSubstr("b.st: tensor \"more\" should be in this file"));
  EXPECT_THAT(shard_error([](const auto& d) {
                const std::string bytes = d.read("b.st");
                d.write("b.st", std::string_view(bytes).substr(0, bytes.size() - 1));
              }),
              HasSubstr("b.st: the tensors end at byte"));
  EXPECT_THAT(shard_error([](const auto& d) { replace_in(d, kIndex, "b.st", "../b.st"); }),
              HasSubstr("not a plain file name"));
}

TEST(Checkpoint, AFileCutShortAfterOpeningIsAnErrorOfTheReadAndNotASignal) {
  const TemporaryDirectory directory;
  write_tiny(directory, testing::tiny_llama_tensors());
  const auto checkpoint = Checkpoint::open(directory.path());
  ASSERT_TRUE(checkpoint.ok());
  std::filesystem::resize_file(directory.path() / kWeights, 2000);
  device::ThreadPool pool({.threads = 1});
  const auto kernels = kernels::select_kernels(device::detect_cpu(), device::Isa::kRef);
  const auto decoder = load_decoder(*checkpoint, {}, *kernels, pool, {}, {});
  ASSERT_FALSE(decoder.ok());
  EXPECT_THAT(decoder.error().message,
              AllOf(HasSubstr("tensor \""), HasSubstr("model.safetensors: became shorter"),
                    HasSubstr("when it was opened and now ends at or before byte")));
}

TEST(Checkpoint, ProgressGoesUpToTheTotalTensorByTensor) {
  const TemporaryDirectory directory;
  write_tiny(directory, testing::tiny_llama_tensors());
  const auto checkpoint = Checkpoint::open(directory.path());
  ASSERT_TRUE(checkpoint.ok());
  device::ThreadPool pool({.threads = 2});
  const auto kernels = kernels::select_kernels(device::detect_cpu(), device::Isa::kRef);
  std::vector<LoadProgress> seen;
  ASSERT_TRUE(load_decoder(*checkpoint, {}, *kernels, pool, {.rows_max = 4},
                           [&](const LoadProgress& progress) { seen.push_back(progress); })
                  .ok());
  ASSERT_EQ(seen.size(), 12u);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].tensors_done, i + 1);
    EXPECT_EQ(seen[i].tensors_total, 12u);
    EXPECT_EQ(seen[i].bytes_total, checkpoint->describe().tensor_bytes);
  }
  EXPECT_EQ(seen.back().bytes_done, seen.back().bytes_total);
}

}  // namespace
}  // namespace bulkhead::model
