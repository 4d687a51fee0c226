#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace bulkhead::text {
namespace {

// Token i stands for pieces[i]; the last one is special.
class PieceTokenizer : public Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  void encode(std::string_view, AddedTokens, std::vector<TokenId>&) const override {}
  std::span<const TokenId> prefix_ids() const override { return {}; }
  std::span<const TokenId> suffix_ids() const override { return {}; }
  std::string_view token_bytes(TokenId id) const override {
    return pieces_[static_cast<size_t>(id)];
  }
  bool is_special(TokenId id) const override {
    return static_cast<size_t>(id) + 1 == pieces_.size();
  }
  std::optional<TokenId> find(std::string_view) const override { return std::nullopt; }
  std::span<const AddedToken> added_tokens() const override { return {}; }
  size_t vocabulary_size() const override { return pieces_.size(); }

 private:
  std::vector<std::string> pieces_;
};

// `bytes` cut behind each position whose bit is set in `cuts`, and a special token at the end.
std::vector<std::string> cut(const std::string& bytes, uint32_t cuts) {
  std::vector<std::string> pieces(1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    pieces.back() += bytes[i];
    if (((cuts >> i) & 1u) != 0 && i + 1 < bytes.size()) pieces.emplace_back();
  }
  pieces.emplace_back("<|end|>");
  return pieces;
}

// Streams `bytes` under every cut; the stream must fold to the whole, valid at every point.
void expect_fold_under_every_split(const std::string& bytes) {
  const std::string whole = base::to_valid_utf8(bytes);
  for (uint32_t cuts = 0; cuts < (1u << (bytes.size() - 1)); ++cuts) {
    const PieceTokenizer tokenizer(cut(bytes, cuts));
    Detokenizer detokenizer(tokenizer, true);
    std::string folded;
    for (size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
      const std::string piece = detokenizer.push(static_cast<TokenId>(id));
      ASSERT_TRUE(base::is_valid_utf8(piece));
      folded += piece;
      ASSERT_EQ(whole.compare(0, folded.size(), folded), 0);
    }
    folded += detokenizer.flush();
    ASSERT_EQ(folded, whole) << "cuts " << cuts;
    ASSERT_EQ(detokenizer.flush(), "");
  }
}

// C150
TEST(Detokenizer, FoldsToTheWholeUnderEverySplitOfEveryShortByteString) {
  // One byte of each role in UTF-8's table of well-formed sequences.
  const std::string roles = "a\x80\x8F\x90\x9F\xA0\xBF\xC2\xE0\xE1\xED\xF0\xF3\xF4\xFF";
  for (const char a : roles) {
    for (const char b : roles) {
      for (const char c : roles) {
        for (const char d : roles) {
          ASSERT_NO_FATAL_FAILURE(expect_fold_under_every_split({a, b, c, d}));
        }
      }
    }
  }
}

// C150
TEST(Detokenizer, FoldsToTheWholeUnderEverySplitOfMixedText) {
  for (const std::string text : {"x\u00e9\u4f60\U0001F600y", "\U0001F468\u200D\U0001F469",
                                 "\u4f60\xE4\xBD\u597d\xF0\x9F\x98", "\xFF\xFE\xC3(\xE2\x82\xAC",
                                 "e\u0301\uFFFD\xF4\x90\x80\x80"}) {
    expect_fold_under_every_split(text);
  }
}

TEST(Detokenizer, HoldsACharacterBackUntilItsLastByte) {
  const PieceTokenizer tokenizer({"a\xF0", "\x9F\x98",
                                  "\x80"
                                  "b",
                                  "<|end|>"});
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.push(0), "a");
  EXPECT_EQ(detokenizer.push(1), "");
  EXPECT_EQ(detokenizer.push(2),
            "\U0001F600"
            "b");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, GivesUpOnACharacterAsSoonAsNoByteCanCompleteIt) {
  const PieceTokenizer tokenizer({"\xE4\xBD", "!", "<|end|>"});
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.push(1), "\uFFFD!");
}

TEST(Detokenizer, FlushesAnUnfinishedCharacterAsOneReplacement) {
  const PieceTokenizer tokenizer({"\xF0\x9F\x98", "<|end|>"});
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
}

TEST(Detokenizer, ShowsSpecialTokensOnlyWhenAskedTo) {
  const PieceTokenizer tokenizer({"a", "<|end|>"});
  Detokenizer shown(tokenizer, false);
  EXPECT_EQ(shown.push(0) + shown.push(1) + shown.flush(), "a<|end|>");
  Detokenizer hidden(tokenizer, true);
  EXPECT_EQ(hidden.push(0) + hidden.push(1) + hidden.flush(), "a");
}

}  // namespace
}  // namespace bulkhead::text
