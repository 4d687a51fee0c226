// Text made to cost more than it weighs.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "base/testing/quick.h"
#include "base/utf8.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"

namespace bulkhead::text {
namespace {

// Merges that go on for ever in runs and in alternations, and some that overlap.
std::unique_ptr<Tokenizer> greedy_tokenizer(std::string pre) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string unit : {"a", "_", " ", "\n", ".", "1", "\xC3\xA9", "\xE4\xBD\xA0"}) {
    for (size_t i = 0; i + 1 < unit.size(); ++i) {
      merges.emplace_back(unit.substr(0, i + 1), unit.substr(i + 1, 1));
    }
    std::string run = unit;
    for (int i = 0; i < 7; ++i, run += run) merges.emplace_back(run, run);
  }
  merges.emplace_back("a", "b");
  merges.emplace_back("b", "a");
  auto tokenizer = Tokenizer::from_gguf(small_vocabulary(merges, std::move(pre)));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

std::string repeated(std::string_view unit, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

// One text of each kind, about `bytes` long.
std::vector<std::string> hostile_texts(size_t bytes) {
  std::vector<std::string> out;
  for (const std::string_view unit :
       {"_", "a", "ab", " ", "\n", " \n", ".", "1", "'s", "\u00e9", "e\u0301", "\u0301\u0323",
        "\u4f60", "\U0001F600", "aA", "<|end", "\xFF"}) {
    out.push_back(repeated(unit, bytes));
  }
  std::mt19937 random(5);
  std::string characters;
  std::string noise;
  while (noise.size() < bytes) noise += static_cast<char>(random());
  while (characters.size() < bytes) {
    base::append_utf8(characters, static_cast<char32_t>(0x4e00 + random() % 0x5000));
  }
  out.push_back(characters);
  out.push_back(noise);
  return out;
}

// Time this thread computed, so that a busy machine does not count.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double encode_seconds(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> out;
  const double start = cpu_seconds();
  tokenizer.encode(text, AddedTokens::kRecognise, out);
  const double seconds = cpu_seconds() - start;
  EXPECT_FALSE(out.empty());
  return seconds;
}

// C154, C108
TEST(HostileText, CostGrowsWithTheLengthAndNotWithItsSquare) {
  const size_t bytes = base::testing::quick() ? 1u << 12 : 1u << 15;
  const std::vector<std::string> shorter = hostile_texts(bytes);
  const std::vector<std::string> longer = hostile_texts(16 * bytes);
  for (const std::string pre : {"smollm", "qwen2", "gpt-4o"}) {
    const auto tokenizer = greedy_tokenizer(pre);
    for (size_t i = 0; i < shorter.size(); ++i) {
      double least = encode_seconds(*tokenizer, shorter[i]);
      for (int again = 0; again < 4; ++again) {
        least = std::min(least, encode_seconds(*tokenizer, shorter[i]));
      }
      // Sixteen times the text: a quadratic step anywhere would cost 256 times as much.
      const double most = encode_seconds(*tokenizer, longer[i]);
      EXPECT_LT(most, 64.0 * std::max(least, 1e-4))
          << pre << ", text " << i << ": " << least << " s, then " << most << " s";
    }
  }
}

// C108
TEST(HostileText, EveryByteComesBack) {
  for (const std::string pre : {"smollm", "gpt-4o"}) {
    const auto tokenizer = greedy_tokenizer(pre);
    for (const std::string& text : hostile_texts(10'000)) {
      std::vector<TokenId> ids;
      tokenizer->encode(text, AddedTokens::kAsText, ids);
      EXPECT_LE(ids.size(), text.size());
      EXPECT_EQ(tokenizer->decode(ids, false), text);
    }
  }
}

// C145
TEST(HostileText, NestingInATokenizerFileIsBounded) {
  for (const size_t depth : {size_t{1'000}, size_t{100'000}}) {
    std::string deep;
    for (size_t i = 0; i < depth; ++i) deep += "{\"type\":\"Sequence\",\"normalizers\":[";
    for (size_t i = 0; i < depth; ++i) deep += "]}";
    EXPECT_FALSE(Tokenizer::from_json(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},)"
                                      R"("normalizer":)" +
                                      deep + "}")
                     .ok());
    EXPECT_FALSE(Tokenizer::from_json(std::string(depth, '[')).ok());
  }
}

}  // namespace
}  // namespace bulkhead::text
