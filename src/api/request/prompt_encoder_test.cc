#include "api/request/prompt_encoder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/test_doubles.h"
#include "base/rng.h"

namespace bulkhead::api {
namespace {

using testing::ByteTokenizer;
using Ids = std::vector<wire::TokenId>;

class PromptEncoderTest : public ::testing::Test {
 protected:
  Ids encode(std::vector<chat::PromptSegment> segments) {
    return encoder_.encode(chat::Prompt{std::move(segments)});
  }

  ByteTokenizer tokenizer_;
  PromptEncoder encoder_{tokenizer_};
};

TEST_F(PromptEncoderTest, ControlTokensOfTheTemplateBecomeIds) {
  EXPECT_EQ(encode({{"<|im_start|>a<|im_end|>", true}}),
            (Ids{ByteTokenizer::kStart, 'a', ByteTokenizer::kEnd}));
}

// C152
TEST_F(PromptEncoderTest, ControlTokensInUserTextStayText) {
  const Ids ids = encode({{"<|im_start|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}});
  ASSERT_EQ(ids.size(), 2 + std::string_view("<|im_end|>").size());
  EXPECT_EQ(ids.front(), ByteTokenizer::kStart);
  EXPECT_EQ(ids.back(), ByteTokenizer::kEnd);
  for (size_t i = 1; i + 1 < ids.size(); ++i) EXPECT_LT(ids[i], 256);
}

TEST_F(PromptEncoderTest, AControlTokenHalfFromTheUserIsNone) {
  const Ids ids = encode({{"<|im_", true}, {"end|>", false}});
  EXPECT_EQ(ids, (Ids{'<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'}));
}

TEST_F(PromptEncoderTest, MergesRunAcrossTheBorderOfTemplateAndUserText) {
  EXPECT_EQ(encode({{"a\n", true}, {"\nb", false}}), (Ids{'a', ByteTokenizer::kNewlines, 'b'}));
  EXPECT_EQ(encode({{"wo", false}, {"rd", true}}), (Ids{ByteTokenizer::kWord}));
}

TEST_F(PromptEncoderTest, ATokenMayTakeTheWhiteSpaceAroundItWhateverItsOrigin) {
  EXPECT_EQ(encode({{"a \t", false}, {"[strip]", true}, {"\xC2\xA0 b", false}}),
            (Ids{'a', ByteTokenizer::kStrip, 'b'}));
}

TEST_F(PromptEncoderTest, AWordTokenNeedsToStandAlone) {
  EXPECT_EQ(encode({{"x [alone]!", true}}), (Ids{'x', ' ', ByteTokenizer::kAlone, '!'}));
  EXPECT_EQ(encode({{"[alone]s", true}}).size(), 8u);
  EXPECT_EQ(encode({{"[alone]", true}, {"\xC3\xA9", false}}).size(), 9u);
}

TEST_F(PromptEncoderTest, EmptyPromptsGiveNoIds) { EXPECT_TRUE(encode({}).empty()); }

TEST_F(PromptEncoderTest, PlainPromptsGetThePrefixAndMayCarryControlTokens) {
  EXPECT_EQ(encoder_.encode_plain("a<|im_end|>"),
            (Ids{ByteTokenizer::kBos, 'a', ByteTokenizer::kEnd}));
}

TEST_F(PromptEncoderTest, KnowsFromTheBytesAloneWhatCannotFit) {
  EXPECT_EQ(encoder_.bytes_max(10), 10 * std::string_view("<|im_start|>").size());
  EXPECT_EQ(encoder_.bytes_max(-1), 0u);
}

std::vector<std::filesystem::path> small_tokenizers() {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  std::vector<std::filesystem::path> paths;
  if (root == nullptr) return paths;
  const std::filesystem::path folder =
      std::filesystem::path(root) / "tests/fuzz/corpus/tokenizer_json";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  return paths;
}

std::unique_ptr<text::Tokenizer> load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string json{std::istreambuf_iterator<char>(file), {}};
  auto tokenizer = text::Tokenizer::from_json(json.substr(0, json.find('\0')));
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

// Segments whose untrusted text holds no spelling of an added token, not even in part, so that the
// reference, which sees one text, must agree.
chat::Prompt random_prompt(base::Rng& rng, bool accents) {
  static constexpr std::string_view kTrusted[] = {"<s>",      "<s>",        " <s> ", "\n", "a<s>b",
                                                  "\xC3\xA9", "x\xC3\xA9 ", "<",     "s>", "_<s>1"};
  static constexpr std::string_view kUntrusted[] = {
      "a", "bc ", " ", "\n\n", "\t", "123", "\xC2\xA0", "\xE4\xB8\x96", "!", "\xF0\x9F\x98\x80"};
  chat::Prompt prompt;
  for (uint64_t i = 0; i < rng.below(12); ++i) {
    const bool trusted = rng.below(2) == 0;
    const std::string_view piece = trusted ? kTrusted[rng.below(std::size(kTrusted))]
                                           : kUntrusted[rng.below(std::size(kUntrusted))];
    if (!accents && piece.find('\xC3') != std::string_view::npos) continue;
    if (prompt.segments.empty() || prompt.segments.back().trusted != trusted) {
      prompt.segments.push_back({"", trusted});
    }
    prompt.segments.back().text += piece;
  }
  return prompt;
}

TEST(PromptEncoder, GivesOrdinaryTextTheIdsOfTheWholeWhateverItsSegments) {
  const auto paths = small_tokenizers();
  ASSERT_FALSE(paths.empty());
  size_t loaded = 0;
  for (const auto& path : paths) {
    const auto tokenizer = load(path);
    if (tokenizer == nullptr) continue;  // a kept input that the tokenizer rightly refuses
    ++loaded;
    const PromptEncoder encoder(*tokenizer);
    // A token that is spelled in another form than the normaliser's is not looked for.
    const auto added = tokenizer->added_tokens();
    const bool accents = std::none_of(
        added.begin(), added.end(), [](const auto& token) { return token.content == "e\xCC\x81"; });
    base::Rng rng(17);
    for (int round = 0; round < 500; ++round) {
      const chat::Prompt prompt = random_prompt(rng, accents);
      Ids expected;
      tokenizer->encode(prompt.text(), text::AddedTokens::kRecognise, expected);
      ASSERT_EQ(encoder.encode(prompt), expected) << path << ": " << prompt.text();
    }
  }
  EXPECT_GE(loaded, 5u);
}

}  // namespace
}  // namespace bulkhead::api
