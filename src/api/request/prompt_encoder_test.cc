#include "api/request/prompt_encoder.h"

#include <gtest/gtest.h>

#include "api/test_doubles.h"

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

}  // namespace
}  // namespace bulkhead::api
