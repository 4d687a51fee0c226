#include "apps/quantize/source_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/side_files.h"
#include "model/testing/files.h"
#include "serve/text_loading.h"
#include "text/tokenizer.h"

namespace bulkhead::apps {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_of(const model::write::SideFiles& side) {
  std::vector<std::string> names;
  for (const model::write::SideFile& file : side.files) names.push_back(file.name);
  return names;
}

TEST(SourceFiles, EverythingButWeightsAndTheModelCardIsCarriedOver) {
  const model::testing::TemporaryDirectory source;
  source.write("model.safetensors",
               model::testing::safetensors_bytes(model::testing::tiny_llama_tensors()));
  source.write("config.json", model::testing::tiny_llama_config());
  for (const char* name :
       {"tokenizer_config.json", "chat_template.jinja", "generation_config.json", "LICENSE",
        "modeling_x.py", "README.md", "model.safetensors.index.json.old", "quantize-report.json",
        ".hidden.json", "training_args.bin"}) {
    source.write(name, "{}");
  }
  const auto checkpoint = model::Checkpoint::open(source.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto side = read_side_files(*checkpoint, source.path());
  ASSERT_TRUE(side.ok());
  EXPECT_EQ(side->config, model::testing::tiny_llama_config());
  EXPECT_THAT(names_of(*side),
              ElementsAre("LICENSE", "chat_template.jinja", "generation_config.json",
                          "modeling_x.py", "tokenizer_config.json"));
}

TEST(SourceFiles, AConfigurationWithoutWeightsIsToldFromACheckpoint) {
  const model::testing::TemporaryDirectory directory;
  directory.write("config.json", model::testing::tiny_llama_config());
  for (const auto& path : {directory.path(), directory.path() / "config.json"}) {
    const auto config = bare_config(path);
    ASSERT_TRUE(config.ok() && config->has_value()) << path;
    EXPECT_EQ((*config)->hidden, 16);
  }
  directory.write("model.safetensors", "");
  EXPECT_FALSE(bare_config(directory.path())->has_value());
  EXPECT_FALSE(bare_config("model.gguf")->has_value());
}

// The files made of a GGUF file say what it says.
TEST(SourceFiles, AGgufFileGivesAConfigurationAndATokenizerThatReadTheSame) {
  const auto path = model::testing::smollm2_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " has not been fetched";
  const auto checkpoint = model::Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok());
  const auto side = read_side_files(*checkpoint, path);
  ASSERT_TRUE(side.ok()) << side.error().message;
  model::GenerationDefaults generation;
  const auto config = model::parse_config(side->config, generation);
  ASSERT_TRUE(config.ok()) << config.error().message;
  const model::ModelConfig& own = checkpoint->config();
  EXPECT_EQ(config->hidden, own.hidden);
  EXPECT_EQ(config->layers, own.layers);
  EXPECT_EQ(config->kv_heads, own.kv_heads);
  EXPECT_EQ(config->context, own.context);
  EXPECT_EQ(config->rms_eps, own.rms_eps);
  EXPECT_EQ(config->rope.theta, own.rope.theta);
  EXPECT_EQ(config->tie, model::TieRule::kTied);
  EXPECT_EQ(generation.eos_ids, checkpoint->generation().eos_ids);

  ASSERT_THAT(names_of(*side), ElementsAre("tokenizer.json", "tokenizer_config.json"));
  const auto written = text::Tokenizer::from_json(side->files[0].bytes);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto stored = text::Tokenizer::from_gguf(serve::to_vocabulary(*checkpoint->text().gguf));
  ASSERT_TRUE(stored.ok());
  for (const char* text : {"Hello world 12345", "<|im_start|>user\nHi!<|im_end|>\n",
                           "caf\u00e9 \u4f60\u597d \t x=1;\n\n  y", "don't 3.14"}) {
    std::vector<text::TokenId> a;
    std::vector<text::TokenId> b;
    (*written)->encode(text, text::AddedTokens::kRecognise, a);
    (*stored)->encode(text, text::AddedTokens::kRecognise, b);
    EXPECT_EQ(a, b) << text;
  }
  model::TextSource text;
  ASSERT_TRUE(model::parse_tokenizer_config(side->files[1].bytes, text).ok());
  EXPECT_EQ(text.chat_template, checkpoint->text().chat_template);
  EXPECT_EQ(text.eos_token, checkpoint->text().eos_token);
}

}  // namespace
}  // namespace bulkhead::apps
