#include "serve/roles/model_digest.h"

#include <gtest/gtest.h>

#include "model/testing/files.h"

namespace bulkhead::serve::roles {
namespace {

using model::testing::TemporaryDirectory;
using Digest = std::array<uint8_t, 32>;

Digest digest_of(const std::string& config,
                 const std::vector<model::testing::FileTensor>& tensors) {
  const TemporaryDirectory folder;
  folder.write("config.json", config);
  folder.write("model.safetensors", model::testing::safetensors_bytes(tensors));
  const auto checkpoint = model::Checkpoint::open(folder.path());
  EXPECT_TRUE(checkpoint.ok()) << (checkpoint.ok() ? "" : checkpoint.error().message);
  if (!checkpoint.ok()) return {};
  const auto digest = model_digest(*checkpoint);
  EXPECT_TRUE(digest.ok());
  return digest.ok() ? *digest : Digest{};
}

Digest digest_with(const std::string& key, const std::string& value) {
  std::string config = model::testing::tiny_llama_config();
  const size_t brace = config.rfind('}');
  config.insert(brace, ", \"" + key + "\": " + value);
  return digest_of(config, model::testing::tiny_llama_tensors());
}

TEST(ModelDigest, IsThatOfTheCheckpointWhereverItLies) {
  const auto tensors = model::testing::tiny_llama_tensors();
  const std::string config = model::testing::tiny_llama_config();
  EXPECT_EQ(digest_of(config, tensors), digest_of(config, tensors));
  EXPECT_NE(digest_of(config, tensors), Digest{});
}

// A model that was tuned has the shapes, the tokenizer and often the norms of the one it came from.
TEST(ModelDigest, OtherWeightsOfTheSameShapesAreAnotherModel) {
  const std::string config = model::testing::tiny_llama_config();
  const auto original = model::testing::tiny_llama_tensors();
  const Digest before = digest_of(config, original);
  for (size_t i = 0; i < original.size(); ++i) {
    auto tuned = original;
    for (char& byte : tuned[i].data) byte = static_cast<char>(byte ^ 1);
    EXPECT_NE(digest_of(config, tuned), before) << original[i].name;
  }
}

// Prefill loads one format and decode another: both were made of the same weights.
TEST(ModelDigest, QuantisedWeightsCountAsThoseTheyWereMadeOf) {
  const auto open = [](const TemporaryDirectory& folder, char flip, const std::string& origin) {
    auto tensors = model::testing::tiny_llama_tensors();
    for (char& byte : tensors.back().data) byte = static_cast<char>(byte ^ flip);
    folder.write("config.json", model::testing::tiny_llama_config());
    folder.write("model.safetensors", model::testing::safetensors_bytes(tensors));
    if (!origin.empty()) folder.write(std::string(model::kOriginFile), origin);
    return model::Checkpoint::open(folder.path());
  };
  const TemporaryDirectory source_folder, copy_folder, tuned_folder, broken_folder;
  const auto source = open(source_folder, 0, "");
  ASSERT_TRUE(source.ok()) << source.error().message;
  const auto origin = weights_digest(*source);
  ASSERT_TRUE(origin.ok());
  const auto copy = open(copy_folder, 1, *origin + "\n");
  ASSERT_TRUE(copy.ok()) << copy.error().message;
  EXPECT_EQ(*model_digest(*copy), *model_digest(*source));
  const auto tuned = open(tuned_folder, 1, "");
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_NE(*model_digest(*tuned), *model_digest(*source));
  const auto broken = open(broken_folder, 1, std::string(64, 'g'));
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find(model::kOriginFile), std::string::npos);
}

TEST(ModelDigest, OtherNumbersOfTheConfigurationAreAnotherModel) {
  const Digest before =
      digest_of(model::testing::tiny_llama_config(), model::testing::tiny_llama_tensors());
  EXPECT_NE(digest_with("rope_scaling", R"({"rope_type": "linear", "factor": 2.0})"), before);
  EXPECT_EQ(digest_with("comment", "1"), before);
}

}  // namespace
}  // namespace bulkhead::serve::roles
