#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "text/test_vocabulary.h"

namespace bulkhead::text {
namespace {

constexpr TokenId kEnd = 259;   // <|end|>, control
constexpr TokenId kTool = 260;  // <tool>, user-defined

GgufVocabulary hello_vocabulary(std::string pre = "gpt-2") {
  return small_vocabulary({{"h", "e"}, {"l", "l"}, {"he", "ll"}}, std::move(pre));
}

std::unique_ptr<Tokenizer> load(const GgufVocabulary& vocabulary) {
  auto tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                            AddedTokens added = AddedTokens::kAsText) {
  std::vector<TokenId> out;
  tokenizer.encode(text, added, out);
  return out;
}

// C152
TEST(Tokenizer, RecognisesControlTokensInTrustedTextOnly) {
  const auto tokenizer = load(hello_vocabulary());
  EXPECT_EQ(encode(*tokenizer, "hell<|end|>o<tool>", AddedTokens::kRecognise),
            (std::vector<TokenId>{258, kEnd, 'o', kTool}));
  const auto as_text = encode(*tokenizer, "hell<|end|>o<tool>", AddedTokens::kAsText);
  EXPECT_EQ(std::count(as_text.begin(), as_text.end(), kEnd), 0);
  EXPECT_EQ(std::count(as_text.begin(), as_text.end(), kTool), 0);
  EXPECT_EQ(tokenizer->decode(as_text, true), "hell<|end|>o<tool>");
}

// C152
TEST(Tokenizer, NoSpellingReachesAControlTokenWhenMergesAreIgnored) {
  // The piece EOS is one word of the pattern, and the vocabulary file lists it among the pieces.
  const std::string json = R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "ignore_merges": true, "merges": [],
    "vocab": {"E": 0, "O": 1, "S": 2, "EOS": 3, "OSE": 4}},
    "added_tokens": [{"id": 3, "content": "EOS", "special": true}]})";
  auto tokenizer = Tokenizer::from_json(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(encode(**tokenizer, "EOS"), (std::vector<TokenId>{0, 1, 2}));
  EXPECT_EQ(encode(**tokenizer, "OSE"), (std::vector<TokenId>{4}));
  EXPECT_EQ(encode(**tokenizer, "EOS", AddedTokens::kRecognise), (std::vector<TokenId>{3}));
}

TEST(Tokenizer, DecodesWhatItEncodesForRandomBytes) {
  std::mt19937 random(11);
  for (const std::string pre : {"gpt-2", "smollm", "llama-bpe", "gpt-4o"}) {
    const auto tokenizer = load(hello_vocabulary(pre));
    for (int round = 0; round < 400; ++round) {
      std::string text;
      for (int i = 0; i < 60; ++i) {
        text += random() % 3 == 0 ? "hell" : std::string(1, static_cast<char>(random()));
      }
      ASSERT_EQ(tokenizer->decode(encode(*tokenizer, text), false), text);
      ASSERT_EQ(tokenizer->decode(encode(*tokenizer, text, AddedTokens::kRecognise), false), text);
    }
  }
}

TEST(Tokenizer, NormalisesWhatQwen2Normalises) {
  const auto tokenizer = load(hello_vocabulary("qwen2"));
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "e\u0301"), false), "\u00e9");
}

TEST(Tokenizer, SkipsSpecialTokensButNotUserDefinedOnes) {
  const auto tokenizer = load(hello_vocabulary());
  EXPECT_TRUE(tokenizer->is_special(kEnd));
  EXPECT_FALSE(tokenizer->is_special(kTool));
  EXPECT_FALSE(tokenizer->is_special(12345));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{258, kEnd, kTool}, true), "hell<tool>");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{258, kEnd, kTool}, false), "hell<|end|><tool>");
}

TEST(Tokenizer, AnIdOutsideTheVocabularyStandsForNothing) {
  const auto tokenizer = load(hello_vocabulary());
  EXPECT_EQ(tokenizer->vocabulary_size(), 261u);
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{-1, 261, 1 << 30}, false), "");
}

TEST(Tokenizer, FindsAddedAndPlainTokens) {
  const auto tokenizer = load(hello_vocabulary());
  EXPECT_EQ(tokenizer->find("<|end|>"), kEnd);
  EXPECT_EQ(tokenizer->find("hell"), 258);
  EXPECT_EQ(tokenizer->find("hello"), std::nullopt);
  ASSERT_EQ(tokenizer->added_tokens().size(), 2u);
  EXPECT_EQ(tokenizer->added_tokens()[0].content, "<|end|>");
}

TEST(Tokenizer, PutsBosAndEosAroundAPlainPromptWhenTheFileSaysSo) {
  GgufVocabulary vocabulary = hello_vocabulary();
  vocabulary.bos = kEnd;
  vocabulary.eos = kTool;
  EXPECT_TRUE(load(vocabulary)->prefix_ids().empty());
  vocabulary.add_bos = vocabulary.add_eos = true;
  const auto tokenizer = load(vocabulary);
  EXPECT_EQ(tokenizer->prefix_ids()[0], kEnd);
  EXPECT_EQ(tokenizer->suffix_ids()[0], kTool);
}

TEST(Tokenizer, EncodesTheSameFromManyThreads) {
  const auto tokenizer = load(hello_vocabulary("qwen2"));
  std::string text;
  for (int i = 0; i < 200; ++i) text += "hell e\u0301 \u4f60\u597d <|end|> 42\n";
  const auto expected = encode(*tokenizer, text, AddedTokens::kRecognise);
  std::vector<std::vector<TokenId>> results(4);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (auto& result : results) {
    threads.emplace_back([&] { result = encode(*tokenizer, text, AddedTokens::kRecognise); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(TokenizerFromGguf, NamesWhatIsSupported) {
  GgufVocabulary vocabulary = hello_vocabulary("bloom");
  auto refused = Tokenizer::from_gguf(vocabulary);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("\"bloom\""), std::string::npos);
  EXPECT_NE(refused.error().message.find("smollm"), std::string::npos);
  vocabulary = hello_vocabulary();
  vocabulary.model = "llama";
  refused = Tokenizer::from_gguf(vocabulary);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("\"llama\""), std::string::npos);
}

TEST(TokenizerFromGguf, RefusesFilesThatContradictThemselves) {
  GgufVocabulary bad = hello_vocabulary();
  bad.types.pop_back();
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
  bad = hello_vocabulary();
  bad.merges[1] = "ll";
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
  bad = hello_vocabulary();
  bad.merges[1] = "l x";
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
  bad = hello_vocabulary();
  bad.tokens[kTool] = "<|end|>";
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
  bad = hello_vocabulary();
  bad.tokens[kTool] = "hell";
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
  bad = hello_vocabulary();
  bad.add_bos = true;
  bad.bos = 261;
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
  bad = hello_vocabulary();
  bad.tokens.clear();
  bad.types.clear();
  EXPECT_FALSE(Tokenizer::from_gguf(bad).ok());
}

}  // namespace
}  // namespace bulkhead::text
