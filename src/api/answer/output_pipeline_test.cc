#include "api/answer/output_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "api/test_doubles.h"
#include "base/rng.h"
#include "base/utf8.h"

namespace bulkhead::api {
namespace {

using testing::ByteTokenizer;

std::vector<wire::TokenId> ids_of(std::string_view bytes) {
  std::vector<wire::TokenId> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

wire::TokenEvent event_of(wire::TokenId id) {
  wire::TokenEvent event;
  event.token = id;
  event.logprob = -1.0f;
  return event;
}

struct Joined {
  std::string text;
  std::string bytes;  // of all records
  size_t records = 0;
  int32_t completion_tokens = 0;
  std::string stop;
};

Joined run(const std::vector<wire::TokenId>& ids, OutputOptions options) {
  static const ByteTokenizer tokenizer;
  OutputPipeline pipeline(tokenizer, std::move(options));
  Joined out;
  const auto take = [&out](const Piece& piece) {
    EXPECT_TRUE(base::is_valid_utf8(piece.text));
    out.text += piece.text;
    for (const TokenRecord& record : piece.tokens) out.bytes += record.bytes;
    out.records += piece.tokens.size();
  };
  for (const wire::TokenId id : ids) take(pipeline.push(event_of(id)));
  take(pipeline.finish());
  out.completion_tokens = pipeline.completion_tokens();
  if (pipeline.matched_stop() != nullptr) out.stop = *pipeline.matched_stop();
  return out;
}

OutputOptions with_stops(std::vector<std::string> stops, bool include = false) {
  OutputOptions options;
  options.stop = std::move(stops);
  options.include_stop = include;
  options.logprobs = true;
  return options;
}

TEST(OutputPipeline, JoinedPiecesAreTheWholeDecodeForRandomTokens) {
  const ByteTokenizer tokenizer;
  base::Rng rng(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<wire::TokenId> ids;
    for (uint64_t i = 0; i < rng.below(30); ++i) {
      ids.push_back(static_cast<wire::TokenId>(rng.below(ByteTokenizer::kSize)));
    }
    OutputOptions options;
    options.skip_special = rng.below(2) == 0;
    options.logprobs = true;
    const std::string expected = base::to_valid_utf8(tokenizer.decode(ids, options.skip_special));
    ASSERT_EQ(run(ids, options).text, expected);
  }
}

// C150
TEST(OutputPipeline, ACharacterSplitOverTokensComesOutWhole) {
  const Joined whole = run({'a', ByteTokenizer::kHalfSmile, 0x98, 0x80, 'b'}, with_stops({}));
  EXPECT_EQ(whole.text,
            "a\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(whole.bytes, whole.text);
  EXPECT_EQ(whole.records, 5u);
}

// C150
TEST(OutputPipeline, AnUnfinishedCharacterAtTheEndIsOneReplacement) {
  EXPECT_EQ(run({'a', ByteTokenizer::kHalfSmile}, with_stops({})).text, "a\xEF\xBF\xBD");
}

// C160
TEST(OutputPipeline, HeldBackTextComesOutAtTheEnd) {
  EXPECT_EQ(run(ids_of("ends with </en"), with_stops({"</end>"})).text, "ends with </en");
}

TEST(OutputPipeline, CountsTokensUpToTheOneThatCompletedTheStop) {
  const Joined cut = run(ids_of("one</s>two"), with_stops({"</s>"}));
  EXPECT_EQ(cut.text, "one");
  EXPECT_EQ(cut.stop, "</s>");
  EXPECT_EQ(cut.completion_tokens, 7);
}

TEST(OutputPipeline, IncludesTheStopStringWhenAsked) {
  const Joined cut = run(ids_of("one</s>two"), with_stops({"</s>"}, true));
  EXPECT_EQ(cut.text, "one</s>");
  EXPECT_EQ(cut.bytes, "one</s>");
}

TEST(OutputPipeline, AStopInsideATokenShortensItsRecord) {
  const Joined cut = run({'x', ByteTokenizer::kWord, 'y'}, with_stops({"or"}));
  EXPECT_EQ(cut.text, "xw");
  EXPECT_EQ(cut.bytes, "xw");
  EXPECT_EQ(cut.records, 2u);
  EXPECT_EQ(cut.completion_tokens, 2);
}

TEST(OutputPipeline, AStopThatIsTheCharacterOfTwoTokensLeavesNeitherRecord) {
  const Joined cut =
      run({'x', ByteTokenizer::kHalfSmile, 0x98, 0x80, 'y'}, with_stops({"\xF0\x9F\x98\x80"}));
  EXPECT_EQ(cut.text, "x");
  EXPECT_EQ(cut.bytes, "x");
}

// C136
TEST(OutputPipeline, RecordsJoinedAreTheTextUnderRandomStops) {
  base::Rng rng(11);
  // Valid characters of one to four bytes, so that bytes and text can be compared.
  const std::vector<std::string> letters = {"a", "b", "\xC3\xA9", "\xE4\xB8\x96",
                                            "\xF0\x9F\x98\x80"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t i = 0; i < rng.below(20); ++i) text += letters[rng.below(letters.size())];
    std::vector<std::string> stops;
    for (uint64_t i = 0; i < rng.below(3); ++i) {
      std::string stop;
      for (uint64_t j = 0; j <= rng.below(3); ++j) stop += letters[rng.below(letters.size())];
      stops.push_back(stop);
    }
    const Joined result = run(ids_of(text), with_stops(stops, rng.below(2) == 0));
    ASSERT_EQ(result.bytes, result.text) << text;
    ASSERT_TRUE(result.stop.empty() ? result.text == text : text.starts_with(result.text));
  }
}

TEST(OutputPipeline, StopStringsAreNotLookedForInTheFirstTokens) {
  OutputOptions options = with_stops({"a"});
  options.min_tokens = 3;
  const Joined result = run(ids_of("aabca"), options);
  EXPECT_EQ(result.text, "aabc");
  EXPECT_EQ(result.completion_tokens, 5);
}

TEST(OutputPipeline, SkippedControlTokensLeaveNoTextAndNoRecord) {
  OutputOptions options = with_stops({});
  const Joined skipped = run({'a', ByteTokenizer::kStart, 'b'}, options);
  EXPECT_EQ(skipped.text, "ab");
  EXPECT_EQ(skipped.records, 2u);
  EXPECT_EQ(skipped.completion_tokens, 3);
  options.skip_special = false;
  EXPECT_EQ(run({'a', ByteTokenizer::kStart, 'b'}, options).text, "a<|im_start|>b");
}

// The published vocabulary, where it is there, with the ids that Kimi writes a call in.
TEST(OutputPipeline, SeesTheMarkersOfKimisOwnTokenizer) {
  const char* shared = std::getenv("BULKHEAD_SHARED");  // NOLINT(concurrency-mt-unsafe)
  std::ifstream file(
      std::string(shared == nullptr ? "" : shared) + "/data/models/kimi-tokenizer/tiktoken.model",
      std::ios::binary);
  if (!file) GTEST_SKIP() << "../shared with Kimi's tokenizer is absent (BULKHEAD_SHARED)";
  text::TiktokenVocabulary vocabulary;
  vocabulary.ranks.assign(std::istreambuf_iterator<char>(file), {});
  constexpr std::pair<wire::TokenId, const char*> kMarkers[] = {
      {163595, "<|tool_calls_section_begin|>"},
      {163596, "<|tool_calls_section_end|>"},
      {163597, "<|tool_call_begin|>"},
      {163598, "<|tool_call_argument_begin|>"},
      {163599, "<|tool_call_end|>"},
      {163606, "<think>"},
      {163607, "</think>"}};
  auto markup = std::make_shared<OutputMarkup>();
  markup->parser.tools = chat::ToolFormat::kKimiK2;
  markup->parser.reasoning = chat::ReasoningFormat::kKimiK2;
  markup->parser.start = chat::ThinkingStart::kOpen;
  const std::vector<std::string> places = chat::output_markers(markup->parser.tools);
  for (const auto& [id, spelled] : kMarkers) {
    vocabulary.added.push_back({id, spelled, true});
    const auto place = std::find(places.begin(), places.end(), spelled) - places.begin();
    markup->tokens.emplace_back(id, static_cast<size_t>(place));
    markup->parser.marker_tokens |= chat::MarkerSet{1} << place;
  }
  const auto tokenizer = text::Tokenizer::from_tiktoken(vocabulary);
  ASSERT_TRUE(tokenizer.ok());

  std::vector<wire::TokenId> ids;
  const auto write = [&](std::string_view text) {
    (*tokenizer)->encode(text, text::AddedTokens::kAsText, ids);
  };
  write("I look.");
  ids.push_back(163607);
  write("你好 ");
  ids.insert(ids.end(), {163595, 163597});
  write("functions.get_weather:0");
  ids.push_back(163598);
  write(R"({"city": "a <|tool_call_end|> b"})");  // spelled out: text
  ids.insert(ids.end(), {163599, 163596});
  OutputOptions options;
  options.markup = markup;
  OutputPipeline pipeline(**tokenizer, options);
  Piece all;
  for (const wire::TokenId id : ids) all.append(pipeline.push(event_of(id)));
  all.append(pipeline.finish());
  EXPECT_EQ(all.reasoning, "I look.");
  EXPECT_EQ(all.text, "你好");
  ASSERT_EQ(all.calls.size(), 1u);
  EXPECT_EQ(all.calls[0].id, "functions.get_weather:0");
  EXPECT_EQ(all.calls[0].name, "get_weather");
  EXPECT_EQ(all.calls[0].arguments, R"({"city": "a <|tool_call_end|> b"})");
  EXPECT_EQ(pipeline.calls().complete, 1);
}

}  // namespace
}  // namespace bulkhead::api
