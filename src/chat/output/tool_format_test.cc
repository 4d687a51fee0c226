#include "chat/output/tool_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "chat/output/format_choice.h"
#include "chat/output/test_fold.h"
#include "chat/output/tool_grammar.h"

namespace bulkhead::chat {
namespace {

FormatChoice chosen(std::string_view source, std::string_view token = {}) {
  return choose_formats(source, [&](std::string_view spelled) { return spelled == token; });
}

TEST(ToolFormat, NamesAreSglangs) {
  for (const char* name : {"kimi_k2", "glm45", "glm47", "deepseekv3", "deepseekv31", "deepseekv32",
                           "qwen25", "hermes", "none"}) {
    EXPECT_TRUE(std::any_of(kToolFormatNames.begin(), kToolFormatNames.end(),
                            [&](const ToolFormatName& one) { return one.name == name; }))
        << name;
  }
  for (const ReasoningFormatName& one : kReasoningFormatNames) {
    EXPECT_EQ(to_string(one.format), one.name);
  }
  EXPECT_EQ(to_string(ToolFormat::kHermes), "qwen25");
}

TEST(ToolFormat, MarkersCanBeCutOutOfAnyText) {
  for (const ToolFormatName& one : kToolFormatNames) {
    std::set<std::string_view> seen;
    for (const std::string_view marker : markers_of(one.format)) {
      EXPECT_TRUE(marker.starts_with('<')) << marker;
      EXPECT_TRUE(seen.insert(marker).second) << marker;
      for (const std::string_view other : markers_of(one.format)) {
        EXPECT_TRUE(marker == other || !other.starts_with(marker)) << marker << " " << other;
      }
    }
  }
}

TEST(FormatChoice, GoesByTheTemplatesMarkup) {
  const auto tools = [](std::string_view source) { return chosen(source).tools; };
  EXPECT_EQ(tools("x<|tool_calls_section_begin|>y"), ToolFormat::kKimiK2);
  EXPECT_EQ(tools("<tool_call>{function-name}\n<arg_key>{k}"), ToolFormat::kGlm45);
  EXPECT_EQ(tools("<tool_call>{function-name}<arg_key>{k}"), ToolFormat::kGlm47);
  EXPECT_EQ(tools("<｜tool▁calls▁begin｜>```json"), ToolFormat::kDeepSeekV3);
  EXPECT_EQ(tools("<｜tool▁calls▁begin｜>"), ToolFormat::kDeepSeekV31);
  EXPECT_EQ(tools("'｜DSML｜' function_calls"), ToolFormat::kDeepSeekV32);
  EXPECT_EQ(tools("<tool_call>\n{\"name\", \"arguments\"}"), ToolFormat::kHermes);
  EXPECT_EQ(tools("<tool_call>\n<function=f> arguments"), ToolFormat::kNone);
  EXPECT_EQ(tools("nothing"), ToolFormat::kNone);
  EXPECT_EQ(chosen("nothing", "<|tool_calls_section_begin|>").tools, ToolFormat::kKimiK2);

  const auto reasoning = [](std::string_view source) { return chosen(source).reasoning; };
  EXPECT_EQ(reasoning("<|im_middle|><think></think>"), ReasoningFormat::kKimiK2);
  EXPECT_EQ(reasoning("<|observation|><think></think>"), ReasoningFormat::kGlm45);
  EXPECT_EQ(reasoning("<｜Assistant｜> <think></think>"), ReasoningFormat::kDeepSeekV3);
  EXPECT_EQ(reasoning("<｜Assistant｜><think>\\n"), ReasoningFormat::kDeepSeekR1);
  EXPECT_EQ(reasoning("<|im_start|><think></think>"), ReasoningFormat::kQwen3);
  EXPECT_EQ(reasoning("<|im_start|>"), ReasoningFormat::kNone);
}

TEST(FormatChoice, SaysWhy) {
  const FormatChoice kimi = chosen("<|im_middle|><think><|tool_calls_section_begin|>");
  EXPECT_EQ(kimi.tools_reason, "the chat template has <|tool_calls_section_begin|>");
  EXPECT_EQ(kimi.reasoning_reason, "the chat template has <think> and <|im_middle|>");
  EXPECT_EQ(chosen("").reasoning_reason, "the chat template has no <think>");
}

TEST(FormatChoice, KnowsThePublishedTemplates) {
  const char* shared = std::getenv("BULKHEAD_SHARED");  // NOLINT(concurrency-mt-unsafe)
  if (shared == nullptr) GTEST_SKIP() << "BULKHEAD_SHARED is not set";
  struct Row {
    const char* file;
    ToolFormat tools;
    ReasoningFormat reasoning;
  };
  const Row rows[] = {
      {"GLM-4.6", ToolFormat::kGlm45, ReasoningFormat::kGlm45},
      {"GLM-4.7-Flash", ToolFormat::kGlm47, ReasoningFormat::kGlm45},
      {"GLM-5.2", ToolFormat::kGlm47, ReasoningFormat::kGlm45},
      {"Kimi-K2-Instruct", ToolFormat::kKimiK2, ReasoningFormat::kNone},
      {"moonshotai-Kimi-K2", ToolFormat::kKimiK2, ReasoningFormat::kNone},
      {"Kimi-K2-Thinking", ToolFormat::kKimiK2, ReasoningFormat::kKimiK2},
      {"deepseek-ai-DeepSeek-V3.1", ToolFormat::kDeepSeekV31, ReasoningFormat::kDeepSeekV3},
      {"deepseek-ai-DeepSeek-V3.2", ToolFormat::kDeepSeekV32, ReasoningFormat::kDeepSeekV3},
      {"llama-cpp-deepseek-r1", ToolFormat::kDeepSeekV3, ReasoningFormat::kDeepSeekR1},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", ToolFormat::kDeepSeekV3,
       ReasoningFormat::kDeepSeekR1},
      {"Qwen-Qwen3-0.6B", ToolFormat::kHermes, ReasoningFormat::kQwen3},
      {"Qwen-Qwen2.5-7B-Instruct", ToolFormat::kHermes, ReasoningFormat::kNone},
      {"Qwen-QwQ-32B", ToolFormat::kHermes, ReasoningFormat::kQwen3},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolFormat::kHermes, ReasoningFormat::kNone},
      {"Qwen3-Coder", ToolFormat::kNone, ReasoningFormat::kNone},
      {"meta-llama-Llama-3.1-8B-Instruct", ToolFormat::kNone, ReasoningFormat::kNone},
  };
  for (const Row& row : rows) {
    const std::filesystem::path path = std::filesystem::path(shared) /
                                       "data/models/chat-templates" /
                                       (std::string(row.file) + ".jinja");
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const std::string source((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(to_string(chosen(source).tools), to_string(row.tools)) << row.file;
    EXPECT_EQ(to_string(chosen(source).reasoning), to_string(row.reasoning)) << row.file;
  }
}

// What a grammar lets a model write, with JSON for arguments.
std::string written(const wire::ToolCallsGrammar& grammar, int calls) {
  std::string text = grammar.section_begin;
  for (int i = 0; i < calls; ++i) {
    const wire::ToolGrammar& tool = grammar.tools[static_cast<size_t>(i) % grammar.tools.size()];
    if (i > 0) text += grammar.separator;
    text += tool.begin;
    if (!tool.after_number.empty()) text += std::to_string(i) + tool.after_number;
    switch (tool.style) {
      case wire::ArgumentStyle::kJson:
        text += R"({"a": "x"})";
        break;
      case wire::ArgumentStyle::kGlmXml:
        text += "<arg_key>a</arg_key><arg_value>x</arg_value>";
        break;
      case wire::ArgumentStyle::kDeepSeek:
        text += "<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n";
        break;
      case wire::ArgumentStyle::kQwenXml:
        ADD_FAILURE() << "no parser reads it";
    }
    text += tool.end;
  }
  return text + grammar.section_end;
}

// C112
TEST(ToolGrammar, WhatItLetsAModelWriteIsReadAsCallsAndNothingElse) {
  const boost::json::value tools = boost::json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},
          {"type":"function","function":{"name":"g"}}])");
  for (const ToolFormatName& one : kToolFormatNames) {
    if (one.format == ToolFormat::kNone) continue;
    OutputParserOptions options;
    options.tools = one.format;
    for (const std::string only : {"", "g"}) {
      const auto grammar = tool_calls_grammar(one.format, tools.get_array(), only, true);
      EXPECT_TRUE(grammar.required && grammar.parallel);
      EXPECT_EQ(grammar.tools.size(), only.empty() ? 2u : 1u);
      const std::string text = written(grammar, 2);
      const auto folded = testing::fold(options, text);
      EXPECT_EQ(folded.content, "") << one.name << text;
      ASSERT_EQ(folded.calls.size(), 2u) << one.name << text;
      EXPECT_EQ(folded.calls[0].name, only.empty() ? "f" : "g");
      EXPECT_EQ(folded.calls[1].name, "g");
      for (const testing::FoldedCall& call : folded.calls) {
        EXPECT_EQ(call.arguments, R"({"a": "x"})") << one.name;
        EXPECT_EQ(call.outcome, CallOutcome::kComplete) << one.name;
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::chat
