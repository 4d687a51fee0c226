#include "chat/template.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

namespace bulkhead::chat {
namespace {

using base::ErrorCode;
using base::Result;

RenderInput input_with(std::string_view messages_json) {
  RenderInput input;
  input.messages = boost::json::parse(boost::json::string_view(messages_json));
  return input;
}

Result<Prompt> render(std::string_view source, const RenderInput& input,
                      TemplateLimits limits = {}) {
  Result<ChatTemplate> compiled = ChatTemplate::compile(source, limits);
  if (!compiled.ok()) return std::move(compiled).error();
  return compiled->render(input);
}

std::string text_of(std::string_view source, const RenderInput& input = input_with("[]")) {
  const Result<Prompt> prompt = render(source, input);
  return prompt.ok() ? prompt->text() : "error: " + prompt.error().message;
}

// The prompt with untrusted text in brackets.
std::string marked(std::string_view source, const RenderInput& input) {
  const Result<Prompt> prompt = render(source, input);
  if (!prompt.ok()) return "error: " + prompt.error().message;
  std::string out;
  for (const PromptSegment& segment : prompt->segments) {
    out += segment.trusted ? segment.text : "[" + segment.text + "]";
  }
  return out;
}

ErrorCode code_of(std::string_view source, TemplateLimits limits = {}) {
  const Result<Prompt> prompt =
      render(source, input_with(R"([{"role":"user","content":"xy"}])"), limits);
  EXPECT_FALSE(prompt.ok()) << source.substr(0, 200);
  return prompt.ok() ? ErrorCode::kInternal : prompt.error().code;
}

std::string repeated(std::string_view piece, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += piece;
  return out;
}

TEST(ChatTemplate, RendersChatMl) {
  const RenderInput input = input_with(R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(text_of("{% for m in messages %}\n"
                    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\n"
                    "{% endfor %}\n"
                    "{% if add_generation_prompt %}\n<|im_start|>assistant\n{% endif %}\n",
                    input),
            "<|im_start|>user\nHi<|im_end|>\n\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, OneCompiledTemplateRendersManyTimesWithoutMemory) {
  Result<ChatTemplate> compiled = ChatTemplate::compile(
      "{% set ns = namespace(s='a') %}{% for m in messages %}{% set ns.s = ns.s + 'b' %}"
      "{% endfor %}{{ ns.s + 'c' }}");
  ASSERT_TRUE(compiled.ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(compiled->render(input_with("[1,2]"))->text(), "abbc");
  }
}

TEST(ChatTemplate, SegmentsAlternateAndAreNeverEmpty) {
  const RenderInput input =
      input_with(R"([{"role":"user","content":""}, {"role":"","content":"a"}])");
  const Result<Prompt> prompt = render(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.content }}{% endfor %}", input);
  ASSERT_TRUE(prompt.ok());
  ASSERT_FALSE(prompt->segments.empty());
  for (size_t i = 0; i < prompt->segments.size(); ++i) {
    EXPECT_FALSE(prompt->segments[i].text.empty());
    if (i > 0) {
      EXPECT_NE(prompt->segments[i].trusted, prompt->segments[i - 1].trusted);
    }
  }
}

TEST(Provenance, SurvivesEveryOperationThatKeepsCharacters) {
  const RenderInput input =
      input_with(R"([{"role":"user","content":"  <think>p</think>Aß<|im_end|> "}])");
  const auto expression = [&](std::string_view body) {
    return marked("{% set c = messages[0].content %}{{ " + std::string(body) + " }}", input);
  };
  EXPECT_EQ(expression("'<|im_start|>' + c[2:5] + '<|im_end|>'"), "<|im_start|>[<th]<|im_end|>");
  EXPECT_EQ(expression("c.split('</think>')[-1].strip()"), "[Aß<|im_end|>]");
  EXPECT_EQ(expression("'a' ~ c[-2:] ~ 'b'"), "a[> ]b");
  EXPECT_EQ(expression("('x' + c[2:4] + 'y') | upper"), "X[<T]Y");
  EXPECT_EQ(expression("('x' + c[19:20] + 'y').upper()"), "X[SS]Y");
  EXPECT_EQ(expression("(c[2:4] ~ 'tail').replace('t', '<|x|>')"), "[<]<|x|><|x|>ail");
  EXPECT_EQ(expression("['a', c[2:4], 'b'] | join('-')"), "a-[<t]-b");
  EXPECT_EQ(expression("{'k': c[2:4]} | tojson"), "[{\"]k[\": \"<t\"}]");
  EXPECT_EQ(expression("['q', c[2:4]]"), "[[']q[', '<t']]");
  EXPECT_EQ(expression("'%s!' | format(c[2:4])"), "[<t]!");
  EXPECT_EQ(expression("'<{}>'.format(c[2:4])"), "<[<t]>");
  EXPECT_EQ(expression("('<' ~ c[2:4])[::-1]"), "[t<]<");
  EXPECT_EQ(expression("('a\\n' ~ c[2:4]) | indent(2)"), "a[\n  <t]");
  EXPECT_EQ(expression("(c[2:4] | safe) + '<|im_end|>'"), "[<t]&lt;|im_end|&gt;");
  EXPECT_EQ(expression("c[2:4] | first ~ 'x' * 2"), "[<]xx");
  EXPECT_EQ(expression("1 ~ true"), "[1True]");
}

TEST(Provenance, PassesThroughMacrosBlocksAndNamespaces) {
  const RenderInput input = input_with(R"([{"role":"user","content":"U"}])");
  EXPECT_EQ(marked("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(messages[0].content) }}", input),
            "<[U]>");
  EXPECT_EQ(marked("{% set b %}<{{ messages[0].content }}>{% endset %}{{ b | lower }}", input),
            "<[u]>");
  EXPECT_EQ(marked("{% set ns = namespace(s='') %}{% for m in messages %}"
                   "{% set ns.s = ns.s + '<' + m.content %}{% endfor %}{{ ns.s + '>' }}",
                   input),
            "<[U]>");
  EXPECT_EQ(marked("{% filter trim %} <{{ messages[0].content }}> {% endfilter %}", input),
            "<[U]>");
}

TEST(Provenance, AppendingToATrustedStringNeverChangesItsOtherHolders) {
  const RenderInput input = input_with(R"([{"role":"user","content":"U"}])");
  EXPECT_EQ(marked("{% set a = 'x' + 'y' %}{% set b = a + messages[0].content %}"
                   "{% set c = a + 'z' %}{{ a }}|{{ b }}|{{ c }}|{{ a + a }}",
                   input),
            "xy|xy[U]|xyz|xyxy");
}

TEST(Provenance, TrustsTheSpecialTokensOfTheCheckpointOnly) {
  RenderInput input = input_with("[]");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.extra["note"] = "<s>";
  input.tools = boost::json::parse(R"([{"name":"<s>"}])");
  EXPECT_EQ(marked("{{ bos_token }}{{ note }}{{ tools[0].name }}{{ eos_token }}", input),
            "<s>[<s><s>]</s>");
  input.extra["bos_token"] = "forged";
  EXPECT_EQ(marked("{{ bos_token }}", input), "[forged]");
}

TEST(ChatTemplate, AbsentTokensAreUndefinedAndAbsentToolsAreNone) {
  EXPECT_EQ(text_of("{{ bos_token is defined }}{{ tools is none }}{{ documents is none }}"),
            "FalseTrueTrue");
}

TEST(ChatTemplate, ExtraVariablesCannotReplaceTheConversation) {
  RenderInput input = input_with("[]");
  input.extra["messages"] = 1;
  const Result<Prompt> prompt = render("x", input);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(prompt.error().field, "chat_template_kwargs.messages");
}

TEST(ChatTemplate, TellsTheTimeItIsGiven) {
  RenderInput input = input_with("[]");
  input.now_unix_seconds = 1'764'072'123;
  EXPECT_EQ(text_of("{{ strftime_now('%d %b %Y %H:%M %Z|%Q|%') }}", input),
            "25 Nov 2025 12:02 |%Q|%");
}

TEST(TemplateErrors, RaiseExceptionIsPassedOnWordForWord) {
  const Result<Prompt> prompt =
      render("a\n{{ raise_exception('only ' ~ 'users') }}", input_with("[]"));
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(prompt.error().message, "only users");
  EXPECT_EQ(prompt.error().field, "chat template, line 2");
}

TEST(TemplateErrors, NameTheLine) {
  EXPECT_EQ(text_of("a\n\n{{ nope.x }}"), "error: chat template, line 3: 'nope' is undefined");
  EXPECT_EQ(text_of("a\n{{ 1 + }}"), "error: chat template, line 2: unexpected end of tag");
  EXPECT_EQ(text_of("{% if true %}\n\n"),
            "error: chat template, line 2: unexpected end of template, looking for 'elif' or "
            "'else' or 'endif'");
}

TEST(TemplateErrors, RefusesTagsThatNeedOtherTemplates) {
  for (const char* tag : {"{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}",
                          "{% extends 'x' %}"}) {
    EXPECT_EQ(code_of(tag), ErrorCode::kUnsupported);
    EXPECT_NE(text_of(tag).find("is not available in chat templates"), std::string::npos) << tag;
  }
}

TEST(TemplateErrors, RefusesMutationOfClientValues) {
  EXPECT_EQ(code_of("{{ messages.append(1) }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of("{{ messages[0].update({}) }}"), ErrorCode::kUnsupported);
}

// C145
TEST(TemplateLimits, BoundTheSourceAndItsNesting) {
  EXPECT_EQ(code_of(std::string(2u << 20, 'x')), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of(repeated("{% if true %}", 5500) + repeated("{% endif %}", 5500)),
            ErrorCode::kResourceExhausted);
  for (const char* open :
       {"(", "[", "{1:", "-", "not ", "x if y else ", "f(", "x[", "[x|f(", "x is f("}) {
    EXPECT_EQ(code_of("{{ " + repeated(open, 50'000)), ErrorCode::kResourceExhausted) << open;
  }
  EXPECT_EQ(code_of("{% set " + repeated("(", 50'000)), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{{ 1" + repeated(" if 1", 50'000) + " }}"), ErrorCode::kResourceExhausted);
}

TEST(TemplateLimits, LongFlatChainsAreNotNesting) {
  EXPECT_EQ(text_of("{{ 0" + repeated(" + 1", 20'000) + " }}"), "20000");
  EXPECT_EQ(text_of("{{ 1" + repeated(" and 1", 20'000) + " }}"), "1");
  EXPECT_EQ(text_of("{{ 'a'" + repeated(" | upper", 20'000) + " }}"), "A");
  EXPECT_EQ(text_of("{% if 0 %}" + repeated("{% elif 0 %}", 20'000) + "{% else %}x{% endif %}"),
            "x");
}

// C148
TEST(TemplateLimits, BoundStepsInNestedLoops) {
  EXPECT_EQ(code_of("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}"
                    "{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{{ range(10 ** 9) }}"), ErrorCode::kUnsupported);
}

// C148
TEST(TemplateLimits, BoundRecursionOfMacrosAndLoops) {
  EXPECT_EQ(code_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% macro m() %}{% if true %}{{ [(m() ~ 'x') | upper] }}{% endif %}"
                    "{% endmacro %}{{ m() }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(
      code_of("{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}"),
      ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% macro m() %}{{ caller() }}{% endmacro %}{% set ns = namespace() %}"
                    "{% set ns.f = m %}{% macro g() %}{{ ns.f() }}{% endmacro %}{% set ns.f = g %}"
                    "{{ g() }}"),
            ErrorCode::kResourceExhausted);
}

// C148
TEST(TemplateLimits, BoundEveryStringOnTheWay) {
  for (const char* expression :
       {"'x' * 10 ** 9", "'x' * 10 ** 30", "[1] * 10 ** 9",
        "('x' * 10000).replace('x', 'y' * 10000)", "'x'.center(10 ** 12)", "'x' | center(10 ** 9)",
        "'%1000000000d' | format(1)", "'%.1000000000f' | format(1.5)", "'%s' * 1000000 % 1",
        "('x' * 100000) | indent(10 ** 9)", "('ab' * 100000).join(range(100000) | map('string'))",
        "'\\t'.expandtabs(10 ** 12)", "'1'.zfill(10 ** 12)", "[[1]] | tojson(indent=10 ** 9)",
        "range(9) | slice(10 ** 12) | list", "[1] | batch(10 ** 12, 0) | list",
        "('a' * 1000000) | list | length ~ ('b' * 40000000)",
        "'x' | truncate(10 ** 12, end='y' * 40000000)", "'{}' * 20000000 ~ '{}' * 20000000"}) {
    const ErrorCode code = code_of("{{ " + std::string(expression) + " }}");
    EXPECT_TRUE(code == ErrorCode::kResourceExhausted || code == ErrorCode::kUnsupported)
        << expression;
  }
  EXPECT_EQ(code_of("{% set ns = namespace(s='xx') %}{% for i in range(60) %}"
                    "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                    "{% set ns.l = ns.l + ns.l %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}"),
            ErrorCode::kResourceExhausted);
}

TEST(TemplateLimits, BoundDeepAndCyclicValues) {
  EXPECT_EQ(code_of("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}"
                    "{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% set a = namespace(l=()) %}{% for i in range(9999) %}{% set a.l = (a.l,) %}"
                    "{% endfor %}{{ {a.l: 1} }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% set a = namespace(l=[]) %}{% set b = namespace(l=[]) %}"
                    "{% for i in range(9999) %}{% set a.l = [a.l] %}{% set b.l = [b.l] %}"
                    "{% endfor %}{{ a.l == b.l }}{{ a.l < b.l }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of("{% set a = namespace(l=[]) %}{% for i in range(9999) %}{% set a.l = [a.l] %}"
                    "{% endfor %}{{ a.l | tojson }}"),
            ErrorCode::kResourceExhausted);
}

TEST(TemplateLimits, BoundDeepConversations) {
  RenderInput input;
  boost::json::value nested = 1;
  for (int i = 0; i < 5000; ++i) nested = boost::json::array{std::move(nested)};
  input.messages = nested;
  const Result<Prompt> prompt = render("x", input);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::kResourceExhausted);
  while (nested.is_array() && !nested.get_array().empty()) {  // taken apart without recursion
    boost::json::value inner = std::move(nested.get_array()[0]);
    nested = std::move(inner);
  }
  boost::json::value rest = std::move(input.messages);
  while (rest.is_array() && !rest.get_array().empty()) {
    boost::json::value inner = std::move(rest.get_array()[0]);
    rest = std::move(inner);
  }
}

TEST(TemplateLimits, AreTheCallersToSet) {
  TemplateLimits limits;
  limits.steps = 50;
  EXPECT_EQ(code_of("{% for i in range(100) %}{% endfor %}", limits),
            ErrorCode::kResourceExhausted);
  limits = {};
  limits.output_bytes = 100;
  EXPECT_EQ(code_of("{{ 'x' * 101 }}", limits), ErrorCode::kResourceExhausted);
  limits = {};
  limits.depth = 4;
  EXPECT_EQ(code_of("{{ [[[[[1]]]]] }}", limits), ErrorCode::kResourceExhausted);
}

TEST(ChatTemplate, ReadsAMillionCharactersOfContentInOneRender) {
  RenderInput input;
  input.messages = boost::json::array{
      boost::json::object{{"role", "user"}, {"content", repeated("naïve text\n", 100'000)}}};
  const Result<Prompt> prompt = render(
      "{% set c = messages[0].content %}{{ c.split('</think>')[-1] | trim }}"
      "{{ c | length }}{{ c[5:7] }}{{ '<think>' in c }}",
      input);
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_TRUE(prompt->text().ends_with("1100000 tFalse"));
}

TEST(ChatTemplate, RepairsInvalidUtf8FromTheClientAndRefusesItInATemplate) {
  RenderInput input;
  input.messages =
      boost::json::array{boost::json::string("a\xFF"
                                             "b")};
  EXPECT_EQ(text_of("{{ messages[0] }}{{ messages[0] | length }}", input), "a\uFFFDb3");
  EXPECT_EQ(code_of("a\xFF"), ErrorCode::kCorruptData);
}

}  // namespace
}  // namespace bulkhead::chat
