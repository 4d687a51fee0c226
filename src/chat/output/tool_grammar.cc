#include "chat/output/tool_grammar.h"

#include <boost/json/serialize.hpp>
#include <string>

#include "base/check.h"

namespace bulkhead::chat {
namespace {

namespace json = boost::json;

// What surrounds a call; the function's name stands between `begin` and `after_name`.
struct CallShape {
  std::string_view section_begin = {};
  std::string_view begin = {};
  std::string_view after_name = {};
  std::string_view after_number = {};
  wire::ArgumentStyle style = wire::ArgumentStyle::kJson;
  std::string_view end = {};
  std::string_view separator = {};
  std::string_view section_end = {};
};

CallShape shape_of(ToolFormat format) {
  using wire::ArgumentStyle;
  switch (format) {
    case ToolFormat::kNone:
      break;
    case ToolFormat::kKimiK2:
      return {.section_begin = "<|tool_calls_section_begin|>",
              .begin = "<|tool_call_begin|>functions.",
              .after_name = ":",
              .after_number = "<|tool_call_argument_begin|>",
              .end = "<|tool_call_end|>",
              .section_end = "<|tool_calls_section_end|>"};
    case ToolFormat::kGlm45:
      return {.begin = "<tool_call>",
              .after_name = "\n",
              .style = ArgumentStyle::kGlmXml,
              .end = "</tool_call>",
              .separator = "\n"};
    case ToolFormat::kGlm47:
      return {.begin = "<tool_call>", .style = ArgumentStyle::kGlmXml, .end = "</tool_call>"};
    case ToolFormat::kDeepSeekV3:
      return {.section_begin = "<｜tool▁calls▁begin｜>",
              .begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              .after_name = "\n```json\n",
              .end = "\n```<｜tool▁call▁end｜>",
              .separator = "\n",
              .section_end = "<｜tool▁calls▁end｜>"};
    case ToolFormat::kDeepSeekV31:
      return {.section_begin = "<｜tool▁calls▁begin｜>",
              .begin = "<｜tool▁call▁begin｜>",
              .after_name = "<｜tool▁sep｜>",
              .end = "<｜tool▁call▁end｜>",
              .section_end = "<｜tool▁calls▁end｜>"};
    case ToolFormat::kDeepSeekV32:
      return {.section_begin = "<｜DSML｜function_calls>\n",
              .begin = "<｜DSML｜invoke name=\"",
              .after_name = "\">\n",
              .style = ArgumentStyle::kDeepSeek,
              .end = "</｜DSML｜invoke>\n",
              .section_end = "</｜DSML｜function_calls>"};
    case ToolFormat::kHermes:
      return {.begin = "<tool_call>\n{\"name\": \"",
              .after_name = "\", \"arguments\": ",
              .end = "}\n</tool_call>",
              .separator = "\n"};
  }
  return {};
}

wire::ToolGrammar grammar_of(const CallShape& shape, const json::object& function,
                             std::string_view name) {
  wire::ToolGrammar tool;
  tool.begin = shape.begin;
  tool.begin += name;
  tool.begin += shape.after_name;
  tool.after_number = shape.after_number;
  tool.style = shape.style;
  tool.end = shape.end;
  const json::value* parameters = function.if_contains("parameters");
  if (parameters != nullptr && parameters->is_object()) tool.schema = json::serialize(*parameters);
  return tool;
}

}  // namespace

wire::ToolCallsGrammar tool_calls_grammar(ToolFormat format, const json::array& tools,
                                          std::string_view only, bool parallel) {
  BH_CHECK(format != ToolFormat::kNone, "there is a format to call in");
  const CallShape shape = shape_of(format);
  wire::ToolCallsGrammar out;
  out.section_begin = shape.section_begin;
  out.separator = shape.separator;
  out.section_end = shape.section_end;
  out.parallel = parallel;
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").get_object();
    const json::string& name = function.at("name").get_string();
    const std::string_view text(name.data(), name.size());
    if (only.empty() || only == text) out.tools.push_back(grammar_of(shape, function, text));
  }
  return out;
}

}  // namespace bulkhead::chat
