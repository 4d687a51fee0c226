#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "text/tokenizer.h"

namespace bulkhead::text {
namespace {

using Ids = std::vector<TokenId>;

// base64 of: a, b, c, ab, bc, abc, in that order.
constexpr const char* kRanks = "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\nYWJj 5\n";

AddedToken named(TokenId id, std::string content, bool special = true) {
  AddedToken token;
  token.id = id;
  token.content = std::move(content);
  token.special = special;
  return token;
}

std::unique_ptr<Tokenizer> load(std::string ranks, std::vector<AddedToken> added = {}) {
  auto tokenizer = Tokenizer::from_tiktoken({std::move(ranks), std::move(added)});
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text,
           AddedTokens added = AddedTokens::kAsText) {
  Ids out;
  tokenizer.encode(text, added, out);
  return out;
}

std::string refusal(std::string ranks, std::vector<AddedToken> added = {}) {
  auto tokenizer = Tokenizer::from_tiktoken({std::move(ranks), std::move(added)});
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

TEST(TiktokenFile, JoinsTheNeighboursWhoseTokenHasTheLowestRank) {
  const auto tokenizer = load(kRanks);
  EXPECT_EQ(encode(*tokenizer, "abc"), (Ids{5}));  // a word that is a token is taken whole
  EXPECT_EQ(encode(*tokenizer, "abcab"), (Ids{5, 3}));
  EXPECT_EQ(encode(*tokenizer, "bcbc"), (Ids{4, 4}));
  EXPECT_EQ(encode(*tokenizer, "aabb"), (Ids{0, 3, 1}));
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "abcab"), false), "abcab");
}

TEST(TiktokenFile, NamesTheSpecialSlotsBehindTheLastRank) {
  const auto tokenizer = load(kRanks, {named(6, "[BOS]"), named(9, "<think>", false)});
  EXPECT_EQ(tokenizer->vocabulary_size(), 6 + kTiktokenSpecialSlots);
  EXPECT_EQ(tokenizer->find("<think>"), 9);
  EXPECT_EQ(tokenizer->find("<|reserved_token_7|>"), 7);
  EXPECT_TRUE(tokenizer->is_special(6));
  EXPECT_TRUE(tokenizer->is_special(7));
  EXPECT_FALSE(tokenizer->is_special(9));
  EXPECT_EQ(encode(*tokenizer, "a<think>b", AddedTokens::kRecognise), (Ids{0, 9, 1}));
}

TEST(TiktokenFile, SaysWhatIsWrongWithIt) {
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
  EXPECT_NE(refusal("YQ== 0\nYg==1\n").find("line 2"), std::string::npos);
  EXPECT_NE(refusal("YQ== 0\nYg== 2\n").find("must have rank 1"), std::string::npos);
  EXPECT_NE(refusal("YQ== 0\nYg== 1x\n").find("must have rank 1"), std::string::npos);
  EXPECT_NE(refusal("Y$== 0\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("YQ= 0\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("YQ== 0\nYQ== 1\n").find("twice"), std::string::npos);
  EXPECT_NE(refusal(kRanks, {named(5, "x")}).find("outside the slots 6 to 261"), std::string::npos);
  EXPECT_NE(refusal(kRanks, {named(6, "x"), named(7, "x")}).find("spells the same"),
            std::string::npos);
  std::string long_token;  // 400 bytes of zeros
  for (int i = 0; i < 133; ++i) long_token += "AAAA";
  EXPECT_NE(refusal(long_token + " 0\n").find("longer than 256"), std::string::npos);
}

// The published file, where it is there: texts and ids that its authors' code gives.
TEST(TiktokenFile, GivesKimisIds) {
  const char* shared = std::getenv("BULKHEAD_SHARED");
  const std::filesystem::path path = std::filesystem::path(shared != nullptr ? shared : "") /
                                     "data/models/kimi-tokenizer/tiktoken.model";
  if (shared == nullptr || !std::filesystem::exists(path)) {
    GTEST_SKIP() << "../shared with Kimi's tokenizer is absent (BULKHEAD_SHARED)";
  }
  std::ifstream in(path, std::ios::binary);
  const auto tokenizer = load({std::istreambuf_iterator<char>(in), {}});
  ASSERT_NE(tokenizer, nullptr);
  const std::pair<const char*, Ids> cases[] = {
      {"Hello world", {19180, 2695}},
      {"Hello, world! 123456", {19180, 11, 2695, 0, 220, 6694, 12972}},
      {"def f(x):\n    return x+1\n", {1166, 285, 3940, 2360, 274, 745, 1288, 10, 16, 198}},
      {"你好，世界", {33845, 378, 2243}},
      {"It's 2026年8月，we'll see", {15881, 220, 2975, 21, 532, 23, 892, 378, 1352, 6683, 2050}},
      {"  leading", {220, 8134}},
      {"naïve café 😀", {4768, 44187, 367, 70591, 70005, 222}},
      {"a\r\n\r\nb\t\tc", {64, 2298, 65, 197, 2529}},
      {"ABCdef XYZ's 1234567", {55335, 1166, 133477, 1048, 220, 6694, 12972, 22}},
  };
  for (const auto& [text, ids] : cases) EXPECT_EQ(encode(*tokenizer, text), ids) << text;
}

}  // namespace
}  // namespace bulkhead::text
