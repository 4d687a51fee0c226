#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "text/tokenizer.h"

namespace bulkhead::text {
namespace {

namespace json = boost::json;

// A tokenizer.json with two-letter words and every component in its plainest form.
json::value good_document() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 4, "content": "<s>", "special": true, "normalized": false},
      {"id": 5, "content": "</s>", "special": true, "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+"}, "behavior": "Isolated",
       "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
      "byte_fallback": false, "ignore_merges": false, "continuing_subword_prefix": "",
      "end_of_word_suffix": null,
      "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}})");
}

json::value& at(json::value& document, std::string_view path) {
  return document.at_pointer(json::string_view(path.data(), path.size()));
}

base::Result<std::unique_ptr<Tokenizer>> load(const json::value& document) {
  const std::string text = json::serialize(document);
  return Tokenizer::from_json(text);
}

// The document with the value at `path` replaced must be refused with `expected` in the message.
void expect_refused(std::string_view path, std::string_view value, std::string_view expected) {
  json::value document = good_document();
  at(document, path) = json::parse(json::string_view(value.data(), value.size()));
  const auto tokenizer = load(document);
  ASSERT_FALSE(tokenizer.ok()) << path << " = " << value;
  EXPECT_NE(tokenizer.error().message.find(expected), std::string::npos)
      << path << ": " << tokenizer.error().message;
}

TEST(TokenizerJson, LoadsAndEncodes) {
  const auto tokenizer = load(good_document());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  std::vector<TokenId> ids;
  (*tokenizer)->encode("<s>ab b", AddedTokens::kRecognise, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{4, 2, 3, 1}));
  ASSERT_EQ((*tokenizer)->prefix_ids().size(), 1u);
  EXPECT_EQ((*tokenizer)->prefix_ids()[0], 4);
  EXPECT_EQ((*tokenizer)->vocabulary_size(), 6u);
}

TEST(TokenizerJson, TakesMergesInBothSpellings) {
  json::value document = good_document();
  at(document, "/model/merges") = json::parse(R"([["a", "b"]])");
  const auto tokenizer = load(document);
  ASSERT_TRUE(tokenizer.ok());
  std::vector<TokenId> ids;
  (*tokenizer)->encode("ab", AddedTokens::kAsText, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{2}));
}

TEST(TokenizerJson, NamesThePlaceOfAnUnsupportedComponent) {
  expect_refused("/normalizer", R"({"type": "NFKC"})", "normalizer: normalizer NFKC");
  expect_refused("/normalizer/normalizers/0", R"({"type": "Lowercase"})",
                 "normalizer.normalizers[0]: normalizer Lowercase");
  expect_refused("/pre_tokenizer/pretokenizers/1/pattern", R"({"Regex": "\\w+"})",
                 "pre_tokenizer.pretokenizers[1].pattern.Regex: the pattern \"\\w+\"");
  expect_refused("/pre_tokenizer/pretokenizers/1/pattern", R"({"String": " "})", "Regex");
  expect_refused("/pre_tokenizer/pretokenizers/1/behavior", R"("MergedWithNext")",
                 "MergedWithNext");
  expect_refused("/pre_tokenizer/pretokenizers/1/invert", "true", "Isolated inverted");
  expect_refused("/pre_tokenizer/pretokenizers/0", R"({"type": "Metaspace"})", "Metaspace");
  expect_refused("/pre_tokenizer/pretokenizers/0", R"({"type": "ByteLevel"})", "after ByteLevel");
  expect_refused("/pre_tokenizer/pretokenizers/0", R"({"type": "Sequence"})", "inside a Sequence");
  expect_refused("/pre_tokenizer", "null", "without ByteLevel");
  expect_refused("/decoder", R"({"type": "Metaspace"})", "decoder: decoder Metaspace");
  expect_refused("/decoder", "null", "no decoder");
  expect_refused("/post_processor", R"({"type": "BertProcessing"})", "BertProcessing");
  expect_refused("/model/type", R"("Unigram")", "Unigram");
  expect_refused("/model/byte_fallback", "true", "model.byte_fallback");
  expect_refused("/model/dropout", "0.1", "model.dropout");
  expect_refused("/model/end_of_word_suffix", R"("</w>")", "model.end_of_word_suffix");
}

TEST(TokenizerJson, NamesThePlaceOfAWrongValue) {
  expect_refused("/model", "[]", "model must be an object");
  expect_refused("/model/vocab", "[]", "model.vocab must be an object");
  expect_refused("/model/vocab/a", "-1", "model.vocab[\"a\"]");
  expect_refused("/model/vocab/a", "1048576", "model.vocab[\"a\"]");
  expect_refused("/model/vocab/a", "1.5", "model.vocab[\"a\"]");
  expect_refused("/model/vocab/a", "1", "id 1 is given twice");
  expect_refused("/model/merges", "{}", "model.merges must be an array");
  expect_refused("/model/merges/0", R"("ab")", "model.merges[0]");
  expect_refused("/model/merges/0", R"("a b c")", "model.merges[0]");
  expect_refused("/model/merges/0", R"(["a"])", "model.merges[0]");
  expect_refused("/model/merges/0", R"(["a", 1])", "model.merges[0]");
  expect_refused("/model/merges/0", R"("b a")", "merge 0 (b a)");
  expect_refused("/model/unk_token", R"("<unk>")", "model.unk_token");
  expect_refused("/model/ignore_merges", "1", "model.ignore_merges must be true or false");
  expect_refused("/added_tokens/0/id", "-4", "added_tokens[0].id");
  expect_refused("/added_tokens/0/id", "99999999999", "added_tokens[0].id");
  expect_refused("/added_tokens/0/id", "2000000", "added token 2000000");
  expect_refused("/added_tokens/0/id", "5", "added token 5 is listed twice");
  expect_refused("/added_tokens/0/id", "0", "contradicts the vocabulary");
  expect_refused("/added_tokens/0/content", R"("ab")", "contradicts the vocabulary");
  expect_refused("/added_tokens/0/content", R"("</s>")", "spells the same");
  expect_refused("/added_tokens/0/content", R"("")", "is empty or too long");
  expect_refused("/added_tokens/0/special", R"("yes")", "added_tokens[0].special");
  expect_refused("/post_processor/single", "[]", "post_processor.single");
  expect_refused("/post_processor/special_tokens", "{}", "post_processor.special_tokens.<s>");
  expect_refused("/post_processor/special_tokens/<s>/ids", "[77]", "outside the vocabulary");
}

TEST(TokenizerJson, RefusesWhatIsNoJson) {
  for (const std::string_view text : {"", "{", "nul", "[1,2", "\xFF", "{}", "[]", "3"}) {
    EXPECT_FALSE(Tokenizer::from_json(text).ok()) << text;
  }
  EXPECT_FALSE(Tokenizer::from_json(std::string(100'000, '[')).ok());
  EXPECT_FALSE(Tokenizer::from_json(std::string((size_t{64} << 20) + 1, ' ')).ok());
}

TEST(TokenizerJson, BoundsTheChainOfPreTokenizers) {
  json::value document = good_document();
  json::array& chain = at(document, "/pre_tokenizer/pretokenizers").as_array();
  const json::value digits = chain.front();
  chain.insert(chain.begin(), 30, digits);
  EXPECT_FALSE(load(document).ok());
}

}  // namespace
}  // namespace bulkhead::text
