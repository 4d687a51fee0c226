#include "text/bpe_model.h"

#include <gtest/gtest.h>

#include <random>

#include "text/test_vocabulary.h"

namespace bulkhead::text {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

BpeVocabulary vocabulary_of(const Pairs& merges) {
  BpeVocabulary out;
  const GgufVocabulary small = small_vocabulary(merges);
  for (size_t i = 0; i + 2 < small.tokens.size(); ++i) {
    out.entries.push_back({small.tokens[i], static_cast<TokenId>(i)});
  }
  for (const auto& [left, right] : merges) out.merges.push_back({spelled(left), spelled(right)});
  return out;
}

std::vector<TokenId> encode(const BpeModel& model, std::string_view piece) {
  BpeScratch scratch;
  std::vector<TokenId> out;
  model.encode(piece, scratch, out);
  return out;
}

// The definition itself: merge the best-ranked pair, leftmost first, until there is none.
std::vector<std::string> merged_by_definition(const Pairs& merges, const std::string& piece) {
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  for (;;) {
    size_t best = merges.size();
    size_t best_at = 0;
    for (size_t at = 0; at + 1 < parts.size(); ++at) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (merges[rank] == std::pair(parts[at], parts[at + 1])) {
          best = rank;
          best_at = at;
        }
      }
    }
    if (best == merges.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

std::string error_of(const BpeVocabulary& vocabulary) {
  const auto model = BpeModel::create(vocabulary);
  return model.ok() ? "" : model.error().message;
}

TEST(BpeModel, MergesEqualTheDefinitionOnShortAndLongPieces) {
  const Pairs merges = {{"a", "b"},  {"b", "a"},    {"ab", "ab"}, {"a", "a"},  {"aa", "b"},
                        {"c", "ab"}, {"abab", "c"}, {"b", "b"},   {"ab", "a"}, {"aa", "aa"}};
  const auto model = BpeModel::create(vocabulary_of(merges));
  ASSERT_TRUE(model.ok());
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string piece;
    const size_t length = 1 + random() % 80;
    for (size_t i = 0; i < length; ++i) piece += static_cast<char>('a' + random() % 3);
    std::vector<std::string> parts;
    for (const TokenId id : encode(*model, piece)) parts.emplace_back(model->bytes(id));
    ASSERT_EQ(parts, merged_by_definition(merges, piece)) << piece;
  }
}

// C154
TEST(BpeModel, WorkStaysLinearOnAHostilePiece) {
  Pairs merges;
  for (std::string run = "a"; run.size() < 1024; run += run) merges.emplace_back(run, run);
  merges.emplace_back("a", "b");
  merges.emplace_back("b", "a");
  const auto model = BpeModel::create(vocabulary_of(merges));
  ASSERT_TRUE(model.ok());
  for (const size_t size : {size_t{1} << 16, size_t{1} << 20}) {
    std::string alternating;
    for (size_t i = 0; i < size; ++i) alternating += i % 2 == 0 ? 'a' : 'b';
    for (const std::string& piece : {std::string(size, 'a'), alternating}) {
      BpeScratch scratch;
      std::vector<TokenId> out;
      model->encode(piece, scratch, out);
      EXPECT_LE(scratch.queue_operations, 6 * size);
      EXPECT_EQ(out.size(), piece == alternating ? size / 2 : size / 1024);
    }
  }
}

TEST(BpeModel, AWordIsTakenWholeOnlyWhereItsMergesLeadThere) {
  BpeVocabulary vocabulary = vocabulary_of({{"a", "b"}, {"b", "c"}});
  vocabulary.entries.push_back({"abc", 300});  // no merge makes it
  EXPECT_EQ(encode(*BpeModel::create(vocabulary), "abc").size(), 2u);
  vocabulary.ignore_merges = true;
  EXPECT_EQ(encode(*BpeModel::create(vocabulary), "abc"), (std::vector<TokenId>{300}));
  vocabulary.never_whole = {300};
  EXPECT_EQ(encode(*BpeModel::create(vocabulary), "abc").size(), 2u);
}

TEST(BpeModel, OfAMergeListedTwiceTheLastRankCounts) {
  const BpeVocabulary vocabulary = vocabulary_of({{"a", "b"}, {"b", "c"}});
  BpeVocabulary twice = vocabulary;
  twice.merges.push_back({"a", "b"});
  EXPECT_EQ(BpeModel::create(vocabulary)->bytes(encode(*BpeModel::create(vocabulary), "abc")[0]),
            "ab");
  EXPECT_EQ(BpeModel::create(twice)->bytes(encode(*BpeModel::create(twice), "abc")[0]), "a");
}

TEST(BpeModel, AByteWithoutATokenIsDroppedOrBecomesTheUnknownToken) {
  BpeVocabulary vocabulary;
  vocabulary.entries = {{"a", 0}, {"b", 1}, {"ab", 2}, {"?", 3}};
  vocabulary.merges = {{"a", "b"}};
  EXPECT_EQ(encode(*BpeModel::create(vocabulary), "axxb"), (std::vector<TokenId>{2}));
  vocabulary.unknown = 3;
  EXPECT_EQ(encode(*BpeModel::create(vocabulary), "axxb"), (std::vector<TokenId>{0, 3, 3, 1}));
  vocabulary.fuse_unknown = true;
  EXPECT_EQ(encode(*BpeModel::create(vocabulary), "axxb"), (std::vector<TokenId>{0, 3, 1}));
}

TEST(BpeModel, FindsPiecesAsTheFileSpellsThem) {
  BpeVocabulary vocabulary = vocabulary_of({{" ", "a"}});
  vocabulary.entries.push_back({"<\uff5cend\uff5c>", 400});
  const auto model = BpeModel::create(vocabulary);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->find("\u0120a"), 256);
  EXPECT_EQ(model->bytes(256), " a");
  EXPECT_EQ(model->find(" a"), std::nullopt);
  EXPECT_EQ(model->find("<\uff5cend\uff5c>"), 400);
  EXPECT_EQ(model->bytes(400), "<\uff5cend\uff5c>");
  EXPECT_EQ(model->bytes(399), "");
  EXPECT_EQ(model->bytes(-1), "");
  EXPECT_EQ(model->size(), 401u);
}

TEST(BpeModel, RefusesVocabulariesThatContradictThemselves) {
  const BpeVocabulary good = vocabulary_of({{"a", "b"}});
  EXPECT_EQ(error_of(good), "");
  EXPECT_NE(error_of({}).find("empty"), std::string::npos);
  BpeVocabulary bad = good;
  bad.entries.push_back({"zz", 5});
  EXPECT_NE(error_of(bad).find("id 5 is given twice"), std::string::npos);
  bad = good;
  bad.entries.push_back({"ab", 999});
  EXPECT_NE(error_of(bad).find("listed twice"), std::string::npos);
  for (const TokenId id : {-1, 1 << 20, std::numeric_limits<TokenId>::max()}) {
    bad = good;
    bad.entries.push_back({"zz", id});
    EXPECT_NE(error_of(bad).find("outside"), std::string::npos);
  }
  bad = good;
  bad.entries.push_back({std::string(kMaxPieceBytes + 1, 'z'), 999});
  EXPECT_NE(error_of(bad).find("longer"), std::string::npos);
}

TEST(BpeModel, RefusesMergesThatLeadNowhere) {
  const BpeVocabulary good = vocabulary_of({{"a", "b"}});
  for (const Merge& merge :
       {Merge{"a", "c"}, Merge{"zz", "a"}, Merge{"", "a"}, Merge{"a", ""}, Merge{" ", "a"}}) {
    BpeVocabulary bad = good;
    bad.merges.push_back(merge);
    EXPECT_NE(error_of(bad).find("merge 1"), std::string::npos) << merge.left << merge.right;
  }
}

}  // namespace
}  // namespace bulkhead::text
