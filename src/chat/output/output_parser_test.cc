// What each format's text becomes: the transcripts of the models' own templates, and what models
// get wrong.
#include "chat/output/output_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "chat/output/test_fold.h"

namespace bulkhead::chat {
namespace {

using testing::fold;
using testing::Folded;
using testing::FoldedCall;
using testing::tokenised;
using testing::with_tokens;

constexpr std::string_view kTools = R"([
  {"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
    "a":{"type":"string"},"n":{"type":"integer"},"list":{"type":"array"}}}}},
  {"type":"function","function":{"name":"g"}}])";

OutputParserOptions options_of(ToolFormat tools, ReasoningFormat reasoning = ReasoningFormat::kNone,
                               ThinkingStart start = ThinkingStart::kUnknown) {
  OutputParserOptions options;
  options.tools = tools;
  options.reasoning = reasoning;
  options.start = start;
  options.schemas = testing::schemas_of(kTools);
  return options;
}

FoldedCall complete(std::string name, std::string arguments, std::string id = "") {
  return {std::move(id), std::move(name), std::move(arguments), CallOutcome::kComplete, true};
}
FoldedCall malformed(std::string name, std::string arguments, std::string id = "") {
  return {std::move(id), std::move(name), std::move(arguments), CallOutcome::kMalformed, true};
}
FoldedCall truncated(std::string name, std::string arguments, std::string id = "") {
  return {std::move(id), std::move(name), std::move(arguments), CallOutcome::kTruncated, true};
}

struct Row {
  std::string text;
  std::string content;
  std::vector<FoldedCall> calls;
  std::string reasoning = {};
};

void expect_rows(const OutputParserOptions& options, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Folded got = fold(options, row.text);
    EXPECT_EQ(got.content, row.content) << row.text;
    EXPECT_EQ(got.calls, row.calls) << row.text << got;
    EXPECT_EQ(got.reasoning, row.reasoning) << row.text;
    const OutputParserOptions tokens = with_tokens(options);
    EXPECT_EQ(fold(tokens, tokenised(tokens, row.text)), got) << "by tokens: " << row.text;
  }
}

// Kimi's markers, short.
std::string kimi(std::string text) {
  const std::pair<std::string_view, std::string_view> kNames[] = {
      {"{S}", "<|tool_calls_section_begin|>"},
      {"{/S}", "<|tool_calls_section_end|>"},
      {"{C}", "<|tool_call_begin|>"},
      {"{A}", "<|tool_call_argument_begin|>"},
      {"{/C}", "<|tool_call_end|>"}};
  for (const auto& [name, marker] : kNames) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, name.size(), marker);
    }
  }
  return text;
}

std::string deepseek(std::string text) {
  const std::pair<std::string_view, std::string_view> kNames[] = {
      {"{S}", "<｜tool▁calls▁begin｜>"}, {"{/S}", "<｜tool▁calls▁end｜>"},
      {"{C}", "<｜tool▁call▁begin｜>"},  {"{A}", "<｜tool▁sep｜>"},
      {"{/C}", "<｜tool▁call▁end｜>"},   {"{D}", "｜DSML｜"}};
  for (const auto& [name, marker] : kNames) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, name.size(), marker);
    }
  }
  return text;
}

// C111
TEST(KimiCalls, CarryTheIdsThatTheModelWrote) {
  expect_rows(
      options_of(ToolFormat::kKimiK2),
      {{"Hello.", "Hello.", {}},
       {kimi("{S}{C}functions.f:0{A}{\"a\":\"x\"}{/C}{/S}"),
        "",
        {complete("f", R"({"a":"x"})", "functions.f:0")}},
       {kimi("I look. {S}{C}functions.f:3{A}{}{/C}{C}functions.g:4{A}{\"n\": 2}{/C}{/S}\n"),
        "I look.",
        {complete("f", "{}", "functions.f:3"), complete("g", R"({"n": 2})", "functions.g:4")}},
       {kimi("{S}\n {C} functions.f:0 {A} {\"a\": 1} {/C}\n{/S} dropped"),
        "",
        {complete("f", R"({"a": 1})", "functions.f:0")}},
       {kimi("{S}{C}functions.f:0{A}{}{/C}{/S}between{S}{C}functions.g:1{A}{}{/C}{/S}"),
        "",
        {complete("f", "{}", "functions.f:0"), complete("g", "{}", "functions.g:1")}},
       // Names with dots, digits and signs; no prefix; no index, of a tool that there is.
       {kimi("{S}{C}functions.a.b-c_2:10{A}{}{/C}{C}g:1{A}{}{/C}{C}functions.f{A}{}{/C}{/S}"),
        "",
        {complete("a.b-c_2", "{}", "functions.a.b-c_2:10"), complete("g", "{}", "g:1"),
         complete("f", "{}")}},
       {kimi("{S}{/S}"), "", {}}});
}

// C114
TEST(KimiCalls, EndTheReasoningWithoutItsMarker) {
  const OutputParserOptions options =
      options_of(ToolFormat::kKimiK2, ReasoningFormat::kKimiK2, ThinkingStart::kOpen);
  const FoldedCall call = complete("f", "{}", "functions.f:0");
  expect_rows(options,
              {{kimi("I need f.{S}{C}functions.f:0{A}{}{/C}{/S}"), "", {call}, "I need f."},
               {kimi("I need f.</think>{S}{C}functions.f:0{A}{}{/C}{/S}"), "", {call}, "I need f."},
               {kimi("So.</think>Let me look.{S}{C}functions.f:0{A}{}{/C}{/S}"),
                "Let me look.",
                {call},
                "So."},
               {"<think>twice</think>Yes.", "Yes.", {}, "twice"},
               {"never closed", "", {}, "never closed"}});
}

TEST(KimiCalls, ThatLackAPartAreReadAsFarAsTheyGo) {
  expect_rows(
      options_of(ToolFormat::kKimiK2),
      {// No section, no end of a call, no arguments.
       {kimi("{C}functions.f:0{A}{}{/C}"), "", {complete("f", "{}", "functions.f:0")}},
       {kimi("{S}{C}functions.f:0{A}{\"a\":1}{C}functions.g:1{A}{}{/S}"),
        "",
        {complete("f", R"({"a":1})", "functions.f:0"), complete("g", "{}", "functions.g:1")}},
       {kimi("{S}{C}functions.f:0{/C}{/S}"), "", {complete("f", "{}", "functions.f:0")}},
       {kimi("{S}{C}functions.f:0{A}{/C}{/S}"), "", {complete("f", "{}", "functions.f:0")}},
       // The text ends inside.
       {kimi("{S}{C}functions.f:0{A}{\"a\": \"x"),
        "",
        {truncated("f", R"({"a": "x)", "functions.f:0")}},
       {kimi("{S}{C}functions.f:0{A}{\"a\": 1}"),
        "",
        {complete("f", R"({"a": 1})", "functions.f:0")}},
       {kimi("{S}{C}functions.f:0{A}"), "", {truncated("f", "", "functions.f:0")}}});
}

// C110, C113
TEST(KimiCalls, WithArgumentsThatAreNoJsonObjectAreToldAndMarked) {
  const auto row = [](const std::string& arguments) {
    return Row{kimi("{S}{C}functions.f:0{A}" + arguments + "{/C}{/S}"),
               "",
               {malformed("f", arguments, "functions.f:0")}};
  };
  expect_rows(options_of(ToolFormat::kKimiK2),
              {row(R"({"a": "x")"), row(R"({"a": "x"} and more)"), row(R"({"a": "say "hi""})"),
               row(R"({"a": NaN})"), row("{}{}"), row("[1]"), row("text")});
  // A name twice is JSON.
  expect_rows(options_of(ToolFormat::kKimiK2),
              {{kimi("{S}{C}functions.f:0{A}{\"a\":1,\"a\":2}{/C}{/S}"),
                "",
                {complete("f", R"({"a":1,"a":2})", "functions.f:0")}}});
}

TEST(KimiCalls, WhoseHeaderNamesNoFunctionAreContent) {
  for (const char* header : {"", "  ", "no tool of this name", "functions.", "call_123",
                             "functions.f\n:0", "{\"name\": \"f\"}"}) {
    const std::string text = kimi("{S}{C}" + std::string(header) + "{A}{}{/C}{/S}");
    const Folded got = fold(options_of(ToolFormat::kKimiK2), text);
    EXPECT_TRUE(got.calls.empty()) << text;
    EXPECT_EQ(got.content, kimi("{C}" + std::string(header) + "{A}{}{/C}")) << text;
  }
  const std::string endless = kimi("{S}{C}") + std::string(3000, 'x');
  EXPECT_EQ(fold(options_of(ToolFormat::kKimiK2), endless).content,
            kimi("{C}") + std::string(3000, 'x'));
}

// C111
TEST(KimiCalls, KeepMarkersThatAreOnlyTextInArguments) {
  const std::string arguments = kimi(R"({"a": "write {/C} and {/S} and {C}"})");
  // In a string they are text; where markers are tokens, anywhere.
  expect_rows(options_of(ToolFormat::kNone), {{arguments, arguments, {}}});
  const Folded spelled = fold(options_of(ToolFormat::kKimiK2),
                              kimi("{S}{C}functions.f:0{A}") + arguments + kimi("{/C}{/S}"));
  EXPECT_EQ(spelled.calls, std::vector{complete("f", arguments, "functions.f:0")});
  const OutputParserOptions tokens = with_tokens(options_of(ToolFormat::kKimiK2));
  std::vector<testing::Stretch> stretches = tokenised(tokens, kimi("{S}{C}functions.f:0{A}"));
  stretches.push_back({kimi("{/C}")});
  for (const auto& end : tokenised(tokens, kimi("{/C}{/S}"))) stretches.push_back(end);
  EXPECT_EQ(fold(tokens, stretches).calls,
            std::vector{malformed("f", kimi("{/C}"), "functions.f:0")});
}

// C115, C119
TEST(GlmCalls, AreReadWithAndWithoutLineBreaks) {
  const FoldedCall f = complete("f", R"({"a": "x", "n": 2})");
  for (const ToolFormat format : {ToolFormat::kGlm45, ToolFormat::kGlm47}) {
    expect_rows(
        options_of(format),
        {{"<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key>"
          "<arg_value>2</arg_value></tool_call>",
          "",
          {f}},
         {"\n<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n"
          "<arg_value>2</arg_value>\n</tool_call>",
          "",
          {f}},
         {"<tool_call>g</tool_call>", "", {complete("g", "{}")}},
         {"<tool_call>g\n</tool_call>", "", {complete("g", "{}")}},
         {"<tool_call> g </tool_call>", "", {complete("g", "{}")}},
         {"<tool_call>g</tool_call><tool_call>my-tool__2</tool_call>",
          "",
          {complete("g", "{}"), complete("my-tool__2", "{}")}},
         {"I look.\n<tool_call>g</tool_call>\n<tool_call>g</tool_call>\nDone.",
          "I look.Done.",
          {complete("g", "{}"), complete("g", "{}")}},
         {"1 < 2 and a <tool", "1 < 2 and a <tool", {}}});
  }
}

// C120
TEST(GlmCalls, HaveValuesOfTheTypesOfTheSchema) {
  const auto call = [](const std::string& key, const std::string& value) {
    return "<tool_call>f<arg_key>" + key + "</arg_key><arg_value>" + value +
           "</arg_value></tool_call>";
  };
  expect_rows(options_of(ToolFormat::kGlm47),
              {{call("a", "40"), "", {complete("f", R"({"a": "40"})")}},
               {call("a", " \"quoted\"\n"), "", {complete("f", R"({"a": " \"quoted\"\n"})")}},
               {call("a", ""), "", {complete("f", R"({"a": ""})")}},
               {call("n", "40"), "", {complete("f", R"({"n": 40})")}},
               {call("n", " 40\n"), "", {complete("f", R"({"n": 40})")}},
               {call("n", "forty"), "", {complete("f", R"({"n": "forty"})")}},
               {call("list", R"([1, {"x": "</y>"}])"),
                "",
                {complete("f", R"({"list": [1, {"x": "</y>"}]})")}},
               {call("other", "true"), "", {complete("f", R"({"other": true})")}},
               {call("other", "yes"), "", {complete("f", R"({"other": "yes"})")}},
               {call("ключ \"x\"", "1"), "", {complete("f", R"({"ключ \"x\"": 1})")}}});
}

TEST(GlmCalls, ThatLackAPartAreReadAsFarAsTheyGo) {
  expect_rows(
      options_of(ToolFormat::kGlm47),
      {{"<tool_call>f<arg_key>a</arg_key><arg_value>x</tool_call>",
        "",
        {complete("f", R"({"a": "x"})")}},
       {"<tool_call>f<arg_key>a<arg_value>x</arg_value></tool_call>",
        "",
        {complete("f", R"({"a": "x"})")}},
       {"<tool_call>g<tool_call>g</tool_call>", "<tool_call>g", {complete("g", "{}")}},
       {"<tool_call>f<arg_key>n</arg_key><arg_value>1</arg_value><tool_call>g</tool_call>",
        "",
        {complete("f", R"({"n": 1})"), complete("g", "{}")}},
       {"<tool_call>f<arg_key>n</arg_key></tool_call>",
        "<arg_key>n</arg_key>",
        {complete("f", "{}")}},
       {"<tool_call>f<arg_key>n</arg_key>stray<arg_value>1</arg_value></tool_call>",
        "<arg_key>n</arg_key>stray<arg_value>1</arg_value>",
        {complete("f", "{}")}},
       // The text ends inside.
       {"<tool_call>f<arg_key>a</arg_key><arg_value>x", "", {truncated("f", R"({"a": "x)")}},
       {"<tool_call>f<arg_key>n</arg_key><arg_value>4", "", {truncated("f", R"({"n": 4)")}},
       {"<tool_call>f<arg_key>n</arg_key><arg_value>4</arg_value>",
        "",
        {truncated("f", R"({"n": 4)")}},
       {"<tool_call>f", "<tool_call>f", {}},
       // No function.
       {"<tool_call></tool_call>", "<tool_call></tool_call>", {}},
       {"<tool_call>two words</tool_call>", "<tool_call>two words</tool_call>", {}},
       {R"(<tool_call>{"name": "f"}</tool_call>)", R"(<tool_call>{"name": "f"}</tool_call>)", {}}});
}

TEST(GlmReasoning, EndsAtItsMarkerOrAtACall) {
  expect_rows(options_of(ToolFormat::kGlm47, ReasoningFormat::kGlm45, ThinkingStart::kOpen),
              {{"r1</think>yo<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value>"
                "<arg_key>n</arg_key><arg_value>2</arg_value></tool_call>",
                "yo",
                {complete("f", R"({"a": "x", "n": 2})")},
                "r1"},
               {"r1<tool_call>g</tool_call>", "", {complete("g", "{}")}, "r1"}});
  // GLM-4.6 opens its reasoning itself.
  expect_rows(options_of(ToolFormat::kGlm45, ReasoningFormat::kGlm45),
              {{"\n<think>r</think>\nyo", "yo", {}, "r"},
               {"\nyo", "\nyo", {}},
               {"\n<think></think>\n\n<tool_call>g\n</tool_call>", "", {complete("g", "{}")}}});
}

TEST(DeepSeekCalls, AreReadInTheirThreeForms) {
  expect_rows(
      options_of(ToolFormat::kDeepSeekV3),
      {{deepseek("{S}{C}function{A}f\n```json\n{\"a\": \"x\"}\n```{/C}{/S}"),
        "",
        {complete("f", R"({"a": "x"})")}},
       {deepseek("ok {S}{C}function{A}f\n```json\n{\n  \"n\": 2\n}\n```{/C}\n{C}function{A}g\n"
                 "```json\n{}\n```{/C}{/S}"),
        "ok",
        {complete("f", "{\n  \"n\": 2\n}"), complete("g", "{}")}},
       {deepseek("{S}{C}function{A}f\n{\"n\": 1}{/C}{/S}"), "", {complete("f", R"({"n": 1})")}},
       {deepseek("{S}{C}function{A}g{/C}{/S}"), "", {complete("g", "{}")}},
       {deepseek("{S}{C}function{A}f\n```json\n{\"a\": \"``` \\n```\"}\n```{/C}{/S}"),
        "",
        {complete("f", R"({"a": "``` \n```"})")}},
       {deepseek("{S}{C}function{A}f\n```json\n{\"n\""), "", {truncated("f", R"({"n")")}},
       {deepseek("{S}{C}function{/C}{/S}"), deepseek("{C}function{/C}"), {}}});
  expect_rows(options_of(ToolFormat::kDeepSeekV31),
              {{deepseek("{S}{C}f{A}{\"a\":\"x\"}{/C}{C}g{A}{}{/C}{/S}"),
                "",
                {complete("f", R"({"a":"x"})"), complete("g", "{}")}},
               {deepseek("{S}{C}two words{A}{}{/C}{/S}"), deepseek("{C}two words{A}{}{/C}"), {}}});
  const std::string two = deepseek(
      "Let me see.\n\n<{D}function_calls>\n<{D}invoke name=\"f\">\n"
      "<{D}parameter name=\"a\" string=\"true\">12 \"<b>\"\n</{D}parameter>\n"
      "<{D}parameter name=\"n\" string=\"false\">2</{D}parameter>\n"
      "</{D}invoke>\n<{D}invoke name=\"g\">\n</{D}invoke>\n</{D}function_calls>\n");
  expect_rows(options_of(ToolFormat::kDeepSeekV32),
              {{two,
                "Let me see.",
                {complete("f", R"({"a": "12 \"<b>\"\n", "n": 2})"), complete("g", "{}")}},
               {deepseek("<{D}function_calls>\n<{D}invoke name=\"f\">\n<{D}parameter name=\"a\" "
                         "string=\"true\">x"),
                "",
                {truncated("f", R"({"a": "x)")}},
               {deepseek("<{D}function_calls><{D}invoke name=f></{D}invoke></{D}function_calls>"),
                deepseek("<{D}invoke name=f></{D}invoke>"),
                {}}});
}

TEST(HermesCalls, LeaveAsTheyWereWritten) {
  const auto call = [](const std::string& json) {
    return "<tool_call>\n" + json + "\n</tool_call>";
  };
  expect_rows(
      options_of(ToolFormat::kHermes),
      {{call(R"({"name": "f", "arguments": {"a": "x", "n": [1, 2.50]}})"),
        "",
        {complete("f", R"({"a": "x", "n": [1, 2.50]})")}},
       {"Sure.\n" + call(R"({"name": "f", "arguments": {}})") + "\n" +
            call(R"({"name":"g","arguments":{"q":"\"</b>\""}})"),
        "Sure.",
        {complete("f", "{}"), complete("g", R"({"q":"\"</b>\""})")}},
       // The name last; other members; another name; no arguments; null.
       {call(R"({"arguments": {"a": {"name": "x"}}, "name": "f"})"),
        "",
        {complete("f", R"({"a": {"name": "x"}})")}},
       {call(R"({"id": 7, "name": "f", "x": {"name": "no"}, "parameters": {"n": 1}, "y": -1})"),
        "",
        {complete("f", R"({"n": 1})")}},
       {call(R"({"name": "g"})"), "", {complete("g", "{}")}},
       {call(R"({"name": "g", "arguments": null})"), "", {complete("g", "{}")}},
       // Arguments as text of JSON.
       {call(R"({"name": "f", "arguments": "{\"a\": \"é\"}"})"),
        "",
        {complete("f", R"({"a": "é"})")}},
       {call(R"({"name": "f", "arguments": [1]})"), "", {malformed("f", "[1]")}},
       {call(R"({"name": "f", "arguments": -1.5})"), "", {malformed("f", "-1.5")}},
       {call(R"({"name": "f", "arguments": true})"), "", {malformed("f", "true")}}});
}

// C110
TEST(HermesCalls, ThatAreNoObjectWithANameAreContent) {
  for (const char* json : {"", "f", R"({"arguments": {}})", R"({"name": 7, "arguments": {}})",
                           R"([{"name": "f", "arguments": {}}])", R"({"name": "two words"})",
                           R"({"name" "f"})", R"({'name': 'f'})", R"("name")", "{}"}) {
    const std::string text = "<tool_call>\n" + std::string(json) + "\n</tool_call>";
    const Folded got = fold(options_of(ToolFormat::kHermes), text);
    EXPECT_EQ(got.content, text);
    EXPECT_TRUE(got.calls.empty()) << text;
  }
  expect_rows(
      options_of(ToolFormat::kHermes),
      {// Its end is missing, in several places.
       {R"(<tool_call>{"name": "f", "arguments": {"a": 1})", "", {complete("f", R"({"a": 1})")}},
       {R"(<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>)",
        "",
        {complete("f", R"({"a": 1})")}},
       {R"(<tool_call>{"name": "f", "arguments": {"a": 1)", "", {truncated("f", R"({"a": 1)")}},
       {R"(<tool_call>{"name": "f", "arg)", R"(<tool_call>{"name": "f", "arg)", {}},
       {R"(<tool_call>{"name": "f", "arguments": {}}<tool_call>{"name": "g"}</tool_call>)",
        "",
        {complete("f", "{}"), complete("g", "{}")}},
       // Something is wrong inside of the arguments, and after them.
       {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": x}}\n</tool_call>",
        "",
        {malformed("f", "{\"a\": x}}\n")}},
       {R"(<tool_call>{"name": "f", "arguments": {}} so</tool_call>)",
        "so",
        {complete("f", "{}")}}});
}

TEST(HermesCalls, KeepTagsThatAreTextOfAString) {
  const std::string text =
      R"(<tool_call>{"name": "f", "arguments": {"a": "write <tool_call> and </tool_call>"}})"
      "</tool_call>";
  EXPECT_EQ(fold(options_of(ToolFormat::kHermes), text).calls,
            std::vector{complete("f", R"({"a": "write <tool_call> and </tool_call>"})")});
  // A string that never ends does not swallow what follows: JSON strings have no line breaks.
  const std::string open =
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x}}\n</tool_call>";
  EXPECT_EQ(fold(options_of(ToolFormat::kHermes), open).calls,
            std::vector{malformed("f", "{\"a\": \"x}}\n")});
}

// C129
TEST(ToolCalls, OfUnknownToolsAreToldAsTheyAre) {
  expect_rows(options_of(ToolFormat::kHermes),
              {{R"(<tool_call>{"name": "Read", "arguments": {}}</tool_call>)",
                "",
                {complete("Read", "{}")}}});
  expect_rows(options_of(ToolFormat::kGlm47),
              {{"<tool_call>Read</tool_call>", "", {complete("Read", "{}")}}});
}

// C128
TEST(ToolCalls, ThatMayNotBeAreDroppedAndLeaveNoMarkup) {
  OutputParserOptions none = options_of(ToolFormat::kKimiK2);
  none.calls = CallPolicy::kNone;
  expect_rows(none, {{kimi("No. {S}{C}functions.f:0{A}{\"a\":1}{/C}{/S}"), "No.", {}}});
  none.tools = ToolFormat::kGlm47;
  expect_rows(
      none, {{"a<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>b", "ab", {}}});
  none.tools = ToolFormat::kHermes;
  expect_rows(none, {{R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)", "", {}}});
}

TEST(ToolCalls, AfterTheFirstAreDroppedWhereOneIsWanted) {
  OutputParserOptions one = options_of(ToolFormat::kKimiK2);
  one.calls = CallPolicy::kFirstOnly;
  expect_rows(one, {{kimi("a{S}{C}functions.f:0{A}{}{/C}{C}functions.g:1{A}{}{/C}{/S}b"),
                     "a",
                     {complete("f", "{}", "functions.f:0")}}});
  OutputParser parser(one);
  parser.text(kimi("{S}{C}functions.f:0{A}{}"));
  EXPECT_FALSE(parser.done());
  parser.text(kimi("{/C}"));
  EXPECT_TRUE(parser.done());
}

TEST(Reasoning, BeginsWhereThePromptOrTheModelOpensIt) {
  const auto options = [](ReasoningFormat format, ThinkingStart start) {
    return options_of(ToolFormat::kNone, format, start);
  };
  using enum ThinkingStart;
  expect_rows(options(ReasoningFormat::kQwen3, kUnknown),
              {{"<think>\nplan\n</think>\n\nDone.", "Done.", {}, "plan"},
               {"<think>\n\n</think>\n\nDone.", "Done.", {}},
               {"\n<think>plan</think>Done.", "Done.", {}, "plan"},
               {"Done. <think>no</think>", "Done. <think>no</think>", {}},
               {"<think>a\n\nb\n</think>\nx\n", "x\n", {}, "a\n\nb"},
               {"<think>cut", "", {}, "cut"},
               {"<think>cut</thin", "", {}, "cut</thin"}});
  expect_rows(options(ReasoningFormat::kQwen3, kOpen),
              {{"plan\n</think>\n\nDone.", "Done.", {}, "plan"},
               {"\n<think>\nplan</think>Done.", "Done.", {}, "plan"}});
  expect_rows(options(ReasoningFormat::kQwen3, kClosed),
              {{"Done.</think>", "Done.</think>", {}}, {"</think>\n\nDone.", "Done.", {}}});
  expect_rows(options(ReasoningFormat::kDeepSeekR1, kUnknown),
              {{"plan\n</think>\n\nDone.", "Done.", {}, "plan"}});
  expect_rows(options(ReasoningFormat::kDeepSeekV3, kUnknown), {{"Done.", "Done.", {}}});
  // Kimi's prompts repeat text exactly, so nothing of it is left out.
  expect_rows(options(ReasoningFormat::kKimiK2, kOpen),
              {{"\nplan\n</think>\nDone.\n", "\nDone.\n", {}, "\nplan\n"}});
}

// C134
TEST(Reasoning, IsNoneInAnswersWithoutIt) {
  for (const ReasoningFormat format : {ReasoningFormat::kKimiK2, ReasoningFormat::kGlm45,
                                       ReasoningFormat::kDeepSeekV3, ReasoningFormat::kQwen3}) {
    expect_rows(options_of(ToolFormat::kNone, format), {{"{\"a\": 1}", "{\"a\": 1}", {}}});
  }
  for (const ReasoningFormatName& one : kReasoningFormatNames) {
    expect_rows(options_of(ToolFormat::kNone, one.format, ThinkingStart::kClosed),
                {{"{\"a\": 1}", "{\"a\": 1}", {}}});
  }
}

TEST(ThinkingStart, IsReadFromTheEndOfThePrompt) {
  const auto start = [](std::vector<PromptSegment> segments) {
    return thinking_start(Prompt{std::move(segments)});
  };
  EXPECT_EQ(start({}), ThinkingStart::kUnknown);
  EXPECT_EQ(start({{"<|assistant|><think>", true}}), ThinkingStart::kOpen);
  EXPECT_EQ(start({{"<think>\n", true}}), ThinkingStart::kOpen);
  EXPECT_EQ(start({{"<think>\n\n</think>\n\n", true}}), ThinkingStart::kClosed);
  EXPECT_EQ(start({{"assistant\n", true}}), ThinkingStart::kUnknown);
  // A client's text decides nothing.
  EXPECT_EQ(start({{"a", true}, {"<think>", false}}), ThinkingStart::kUnknown);
  EXPECT_EQ(thinking_start("plain"), ThinkingStart::kClosed);
  EXPECT_EQ(thinking_start("<think>half"), ThinkingStart::kOpen);
  EXPECT_EQ(thinking_start("<think>whole</think>and"), ThinkingStart::kClosed);
}

}  // namespace
}  // namespace bulkhead::chat
