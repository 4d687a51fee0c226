// FOLD: whatever a model writes and however it comes, the joined deltas are the whole answer; and
// nothing of it is lost, and no text makes a parser slow.
#include <gtest/gtest.h>

#include <string>

#include "base/testing/quick.h"
#include "chat/output/output_parser.h"
#include "chat/output/test_fold.h"

namespace bulkhead::chat {
namespace {

using testing::expect_same_under_cuts;
using testing::fold;
using testing::Stretch;
using testing::tokenised;
using testing::with_tokens;

constexpr std::string_view kTools = R"([
  {"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
    "a":{"type":"string"},"n":{"type":"integer"}}}}}])";

struct Transcript {
  ToolFormat tools;
  ReasoningFormat reasoning;
  std::string text;
};

const std::vector<Transcript>& transcripts() {
  using T = ToolFormat;
  using R = ReasoningFormat;
  static const std::vector<Transcript> kAll = {
      {T::kKimiK2, R::kKimiK2,
       "<think>why 日本\n</think>\nI look. <|tool_calls_section_begin|><|tool_call_begin|>"
       "functions.f:0<|tool_call_argument_begin|> {\"a\": \"x</y>\"} <|tool_call_end|>\n"
       "<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_calls_section_end|> rest"},
      {T::kKimiK2, R::kKimiK2,
       "<think>why<|tool_calls_section_begin|><|tool_call_begin|>no name"
       "<|tool_call_argument_begin|>{}<|tool_call_end|>"},
      {T::kKimiK2, R::kNone,
       "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{\"a\": \""
       "<|tool_call_end|>\"}<|tool_call_end|>"},
      {T::kGlm47, R::kGlm45,
       "<think>r1</think>yo<tool_call>f<arg_key>a</arg_key><arg_value>x é\n</arg_value>"
       "<arg_key>n</arg_key><arg_value> 2</arg_value></tool_call>"},
      {T::kGlm45, R::kGlm45,
       "\n<think>r</think>\nA < B\n<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>[1</arg_value>\n"
       "</tool_call>\n<tool_call>g</tool_call> \n end"},
      {T::kGlm47, R::kNone,
       "<tool_call>f<arg_key>n</arg_key> x <arg_value>1</tool_call><tool_call>"},
      {T::kDeepSeekV3, R::kDeepSeekR1,
       "plan\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n"
       "```json\n{\"a\": \"``\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {T::kDeepSeekV3, R::kNone,
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n``no fence<｜tool▁call▁end｜>"},
      {T::kDeepSeekV31, R::kDeepSeekV3,
       "<think>p</think>ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\":2}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {T::kDeepSeekV32, R::kDeepSeekV3,
       "ok\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
       "string=\"true\">x \"y\"</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" "
       "string=\"false\">"
       "[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
      {T::kDeepSeekV32, R::kNone, "<｜DSML｜invoke name=\"f\"> x <｜DSML｜parameter nam>y"},
      {T::kHermes, R::kQwen3,
       "<think>\nplan\n\n</think>\n\nSure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
       "\"<b>\\n\", \"n\": -1.5e3}}\n</tool_call>\n"},
      {T::kHermes, R::kNone,
       "<tool_call>{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}</tool_call> and "
       "<tool_call>{\"name\": \"g\"}<tool_call>[1]</tool_call>"},
      {T::kHermes, R::kNone,
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": x}}</tool_call> ."},
  };
  return kAll;
}

OutputParserOptions options_of(const Transcript& transcript) {
  OutputParserOptions options;
  options.tools = transcript.tools;
  options.reasoning = transcript.reasoning;
  options.schemas = testing::schemas_of(kTools);
  return options;
}

// C109, C113, C114, C116, C119
TEST(OutputParser, GivesTheSameAnswerUnderEveryCutOfTheText) {
  for (const Transcript& transcript : transcripts()) {
    SCOPED_TRACE(transcript.text);
    const OutputParserOptions options = options_of(transcript);
    expect_same_under_cuts(options, {Stretch{transcript.text}});
    const OutputParserOptions tokens = with_tokens(options);
    expect_same_under_cuts(tokens, tokenised(tokens, transcript.text));
  }
}

TEST(OutputParser, GivesTheSameAnswerUnderEveryCutOfEveryBeginningOfTheText) {
  for (const Transcript& transcript : transcripts()) {
    SCOPED_TRACE(transcript.text);
    const OutputParserOptions options = options_of(transcript);
    for (size_t length = 1; length < transcript.text.size(); ++length) {
      if (!testing::between_characters(transcript.text, length)) continue;
      expect_same_under_cuts(options, {Stretch{transcript.text.substr(0, length)}}, 0, 2);
    }
  }
}

int rounds(int full) { return base::testing::quick() ? full / 4 : full; }

// The pieces out of which formats are made, in any order.
std::string random_markup(base::Rng& rng, ToolFormat format) {
  static const std::vector<std::string> kPieces = {"<think>",
                                                   "</think>",
                                                   " ",
                                                   "\n",
                                                   "f",
                                                   "functions.f:0",
                                                   "{\"name\": \"f\", \"arguments\": ",
                                                   "{\"a\": 1}",
                                                   "}",
                                                   "\"",
                                                   "\\",
                                                   "<",
                                                   "```json\n",
                                                   "```",
                                                   "\">",
                                                   "\" string=\"true\">",
                                                   "x",
                                                   "é",
                                                   "<tool",
                                                   "{",
                                                   "[1,",
                                                   "function",
                                                   "a"};
  const auto markers = markers_of(format);
  std::string text;
  const uint64_t count = 1 + rng.below(14);
  for (uint64_t i = 0; i < count; ++i) {
    if (!markers.empty() && rng.below(2) == 0) {
      text += markers[rng.below(markers.size())];
    } else {
      text += kPieces[rng.below(kPieces.size())];
    }
  }
  return text;
}

// C113
TEST(OutputParser, TakesAnyMarkupAndLosesNothing) {
  base::Rng rng(5);
  for (int round = 0; round < rounds(6000); ++round) {
    OutputParserOptions options;
    options.tools = kToolFormatNames[rng.below(kToolFormatNames.size())].format;
    options.reasoning = kReasoningFormatNames[rng.below(kReasoningFormatNames.size())].format;
    options.start = static_cast<ThinkingStart>(rng.below(3));
    options.calls = static_cast<CallPolicy>(rng.below(3));
    options.schemas = testing::schemas_of(kTools);
    const std::string text = random_markup(rng, options.tools);
    SCOPED_TRACE(std::string(to_string(options.tools)) + " " +
                 std::string(to_string(options.reasoning)) + ": " + text);
    const bool tokens = rng.below(2) == 0;
    if (tokens) options = with_tokens(options);
    const auto whole = tokens ? tokenised(options, text) : std::vector{Stretch{text}};
    expect_same_under_cuts(options, whole, 0, 3);
    for (const testing::FoldedCall& call : fold(options, whole).calls) {
      EXPECT_TRUE(call.ended);
      EXPECT_TRUE(is_function_name(call.name));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// Edits of valid transcripts, a byte at a time. C110, C113
TEST(OutputParser, TakesEditsOfCallsAndLosesNothing) {
  base::Rng rng(6);
  for (int round = 0; round < rounds(4000); ++round) {
    const Transcript& transcript = transcripts()[rng.below(transcripts().size())];
    std::string text = transcript.text;
    const uint64_t edits = 1 + rng.below(4);
    for (uint64_t i = 0; i < edits && !text.empty(); ++i) {
      const size_t at = rng.below(text.size());
      if (rng.below(2) == 0) {
        text.erase(at, 1 + rng.below(8));
      } else {
        text[at] = static_cast<char>(0x20 + rng.below(0x5F));
      }
    }
    SCOPED_TRACE(text);
    expect_same_under_cuts(options_of(transcript), {Stretch{text}}, 0, 2);
    if (::testing::Test::HasFailure()) return;
  }
}

// Up to where a fence may come.
std::string deepseek_call_begin(ToolFormat format) {
  return format == ToolFormat::kDeepSeekV3 ? "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n" : "";
}

// Texts that make a careless parser look again and again at what it has seen.
TEST(OutputParser, HoldsBackAndRepeatsLittle) {
  constexpr size_t kCount = 200'000;
  const auto repeated = [](std::string_view piece) {
    std::string text;
    while (text.size() < kCount) text += piece;
    return text;
  };
  for (const ToolFormatName& one : kToolFormatNames) {
    OutputParserOptions options;
    options.tools = one.format;
    options.reasoning = ReasoningFormat::kQwen3;
    const auto markers = markers_of(one.format);
    const std::string opener = markers.empty() ? std::string() : std::string(markers[0]);
    const std::string fenced = deepseek_call_begin(one.format);
    for (const std::string& text :
         {repeated("<"), fenced + repeated(" "), fenced + repeated("`"), repeated("<tool_call"),
          repeated(opener + " "), opener + repeated("{"), opener + repeated(" "), repeated("\n"),
          opener + repeated("<|"),
          opener + "{\"name\": \"f\", \"arguments\": " + repeated("[\"<\",")}) {
      OutputParser parser(options);
      size_t given = 0;
      for (const char c : text) given += parser.text({&c, 1}).size();
      given += parser.finish().size();
      EXPECT_GT(given, 0u) << one.name;
    }
  }
}

}  // namespace
}  // namespace bulkhead::chat
