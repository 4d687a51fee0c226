#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace bulkhead::text {
namespace {

using Pieces = std::vector<std::string>;

class Collect : public PieceSink {
 public:
  void take(std::string_view piece) override { pieces.emplace_back(piece); }
  Pieces pieces;
};

Pieces split(std::vector<SplitStep> steps, std::string_view text) {
  Collect out;
  PreTokenizer(std::move(steps)).split(text, out);
  return out.pieces;
}

Pieces split_regex(std::string_view regex, std::string_view text) {
  auto step = split_by_regex(regex);
  EXPECT_TRUE(step.ok()) << regex;
  return split({*step}, text);
}

TEST(PreTokenizer, Gpt2KeepsASpaceWithTheWordBehindIt) {
  EXPECT_EQ(split({Matcher(match_gpt2)}, "It's 42  apples,\n\n ok!? "),
            (Pieces{"It", "'s", " 42", " ", " apples", ",", "\n\n", " ok", "!?", " "}));
}

TEST(PreTokenizer, SmolLm2SplitsDigitsBeforeItSplitsWords) {
  EXPECT_EQ(split({SplitDigits{true}, Matcher(match_gpt2)}, "a 12 b"),
            (Pieces{"a", " ", "1", "2", " b"}));
}

TEST(PreTokenizer, Llama3TakesDigitsByThreesAndLineBreaksTogether) {
  EXPECT_EQ(split({Matcher(match_llama3)}, "IT'S 1234567!\r\n\r\n  x  \n y"),
            (Pieces{"IT", "'S", " ", "123", "456", "7", "!\r\n\r\n", " ", " x", "  \n", " y"}));
}

TEST(PreTokenizer, ContractionsFoldTheLongS) {
  EXPECT_EQ(split({Matcher(match_llama3)}, "it'\u017F on"), (Pieces{"it", "'\u017F", " on"}));
  EXPECT_EQ(split({Matcher(match_gpt2)}, "it'\u017F on"), (Pieces{"it", "'", "\u017F", " on"}));
}

TEST(PreTokenizer, Qwen2TakesEachDigitAlone) {
  EXPECT_EQ(split({Matcher(match_qwen2)}, "x12"), (Pieces{"x", "1", "2"}));
}

TEST(PreTokenizer, O200kCutsWhereCaseRises) {
  EXPECT_EQ(split({Matcher(match_o200k)}, "parseJSONText HTTPServer's a/\n/"),
            (Pieces{"parse", "JSONText", " HTTPServer's", " a", "/\n/"}));
  EXPECT_EQ(split({Matcher(match_o200k)}, "\u02b0AAA"), (Pieces{"\u02b0", "AAA"}));
}

TEST(PreTokenizer, AByteThatIsNoCharacterCountsAsASign) {
  EXPECT_EQ(split({Matcher(match_gpt2)}, "ab\xFF\xFE!cd"), (Pieces{"ab", "\xFF\xFE!", "cd"}));
}

TEST(PreTokenizer, PrefixSpaceStandsBeforeAPieceWithoutOne) {
  EXPECT_EQ(split({PrefixSpace{}, Matcher(match_gpt2)}, "a b"), (Pieces{" a", " b"}));
  EXPECT_EQ(split({PrefixSpace{}, Matcher(match_gpt2)}, " a b"), (Pieces{" a", " b"}));
}

TEST(PreTokenizer, SimpleRunsSplitAndWhatIsBetweenStaysTogether) {
  EXPECT_EQ(split_regex("[0-9][0-9][0-9]", "ab1234cd"), (Pieces{"ab", "123", "4cd"}));
  EXPECT_EQ(split_regex(R"(\s?\p{Lu}+)", "a BC d"), (Pieces{"a", " BC", " d"}));
  EXPECT_EQ(split_regex("[\r\n]", "a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
  EXPECT_EQ(split_regex("[^a-c]+", "abxyc"), (Pieces{"ab", "xy", "c"}));
  EXPECT_EQ(split_regex("[\u4e00-\u9fa5]+", "a\u4f60\u597db"), (Pieces{"a", "\u4f60\u597d", "b"}));
}

// C155
TEST(PreTokenizer, AnUnknownPatternIsRefusedByName) {
  for (const std::string_view regex :
       {R"(\p{L}+|\p{N}+)", "(?i:abc)", "", "[", "[]", "a*", "[a&&[b]]", R"(\p{Han}+)", R"(\w+)",
        "a{2", "a{0,3}", "a{1,9999}", ".", "[z-a]", "[[:alpha:]]"}) {
    const auto step = split_by_regex(regex);
    ASSERT_FALSE(step.ok()) << regex;
    EXPECT_NE(step.error().message.find("\"" + std::string(regex) + "\""), std::string::npos);
    EXPECT_NE(step.error().message.find("supported are"), std::string::npos);
  }
}

TEST(PreTokenizer, PiecesJoinToTheTextForRandomBytes) {
  std::mt19937 random(7);
  const std::string_view parts[] = {"a",      "B", "1",      " ",      "\n",    "\r",
                                    "'s",     "'", "\u0301", "\u4f60", "\xFF",  "\xE2\x82",
                                    "\u3000", "!", "/",      "\u02b0", "\u01c5"};
  for (const Matcher matcher : {match_gpt2, match_llama3, match_qwen2, match_o200k}) {
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (int i = 0; i < 30; ++i) text += parts[random() % std::size(parts)];
      std::string joined;
      for (const std::string& piece : split({SplitDigits{false}, matcher}, text)) {
        ASSERT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace bulkhead::text
