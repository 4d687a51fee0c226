#include "api/request/chat_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "api/request/json_input.h"
#include "api/request/tool_history.h"
#include "chat/output/tool_grammar.h"
#include "chat/tool_declaration.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

// Places in chat::output_markers().
constexpr size_t kThinkMarkers = 2;

bool has_tool(const json::value& tools, std::string_view name) {
  const json::array& all = tools.get_array();
  return std::any_of(all.begin(), all.end(), [&](const json::value& tool) {
    return view(tool.at("function").at("name").get_string()) == name;
  });
}

// Variables under the names that the families' templates read. What the client set itself stays.
void set_thinking(const RequestFields& fields, json::object& variables) {
  const auto set = [&](const char* name, const json::value& value) {
    if (!variables.contains(name)) variables[name] = value;
  };
  const ThinkingWish& wish = fields.thinking;
  const std::string& effort = wish.effort.empty() ? fields.reasoning_effort : wish.effort;
  std::optional<bool> enabled = wish.enabled ? wish.enabled : fields.enable_thinking;
  if (!enabled && !effort.empty()) enabled = effort != "none";
  if (enabled) {
    set("thinking", *enabled);
    set("enable_thinking", *enabled);
  }
  if (!effort.empty() && effort != "none") set("reasoning_effort", json::string(effort));
  if (wish.keep) {
    set("preserve_thinking", *wish.keep);
    set("clear_thinking", !*wish.keep);
  }
}

}  // namespace

ChatDialect::ChatDialect(const ApiDeps& deps, const ModelCard& model) : deps_(deps), model_(model) {
  if (deps.chat_template != nullptr) {
    traits_ = chat::probe_template(*deps.chat_template, model.chat_template);
  }
  const std::vector<std::string> markers = chat::output_markers(model.tool_format);
  for (const text::AddedToken& token : deps.tokenizer.added_tokens()) {
    const auto found = std::find(markers.begin(), markers.end(), token.content);
    if (found == markers.end()) continue;
    marker_tokens_.emplace_back(token.id, static_cast<size_t>(found - markers.begin()));
  }
}

Failure ChatDialect::check(const RequestFields& fields) const {
  if (fields.tool_choice != ToolChoice::kRequired) return std::nullopt;
  const std::string path = "tool_choice";
  if (fields.tools.is_null()) return invalid_value(path, "tool_choice needs tools to choose from");
  if (!fields.tool_name.empty() && !has_tool(fields.tools, fields.tool_name)) {
    return invalid_value(
        path, fmt::format("tool_choice names '{}', which is none of the tools", fields.tool_name));
  }
  if (model_.tool_format == chat::ToolFormat::kNone) {
    return unsupported_parameter(
        path,
        "how this model calls tools is not known, so it cannot be made to; "
        "the server's --tool-call-parser names a way");
  }
  if (deps_.constraints == nullptr) {
    return unsupported_parameter(path, "this server cannot constrain answers");
  }
  return std::nullopt;
}

void ChatDialect::fill(RequestFields& fields, chat::RenderInput& out) const {
  json::array& messages = fields.messages.get_array();
  fit_arguments(messages, traits_);
  if (model_.tool_format == chat::ToolFormat::kKimiK2) use_kimi_ids(messages);
  out.messages = std::move(fields.messages);
  out.extra = std::move(fields.chat_template_kwargs);
  set_thinking(fields, out.extra);
  if (fields.tool_choice == ToolChoice::kNone || fields.tools.is_null()) return;
  out.tools = std::move(fields.tools);
  if (!traits_.typescript_tools) return;
  out.tools = chat::sorted_deeply(out.tools);
  if (auto text = chat::typescript_declarations(out.tools.get_array())) {
    out.extra["tools_ts_str"] = json::string(*text);
  }
}

std::shared_ptr<const chat::ToolSchemas> ChatDialect::schemas(const RequestFields& fields) const {
  if (fields.tools.is_null()) return nullptr;
  return std::make_shared<const chat::ToolSchemas>(fields.tools);
}

std::shared_ptr<const OutputMarkup> ChatDialect::markup(
    const RequestFields& fields, chat::ThinkingStart start,
    std::shared_ptr<const chat::ToolSchemas> schemas) const {
  auto out = std::make_shared<OutputMarkup>();
  chat::OutputParserOptions& parser = out->parser;
  if (fields.separate_reasoning.value_or(true)) parser.reasoning = model_.reasoning_format;
  if (schemas) parser.tools = model_.tool_format;
  if (parser.reasoning == chat::ReasoningFormat::kNone && parser.tools == chat::ToolFormat::kNone) {
    return nullptr;
  }
  parser.calls = fields.tool_choice == ToolChoice::kNone      ? chat::CallPolicy::kNone
                 : !fields.parallel_tool_calls.value_or(true) ? chat::CallPolicy::kFirstOnly
                                                              : chat::CallPolicy::kAll;
  // An answer of a required form that does not begin after reasoning has none.
  const bool formed = fields.response_format && fields.response_format->free_until.empty();
  parser.start = formed ? chat::ThinkingStart::kClosed : start;
  parser.schemas = std::move(schemas);
  const size_t markers = chat::output_markers(parser.tools).size();
  for (const auto& [token, place] : marker_tokens_) {
    const bool think = place < kThinkMarkers;
    if (think ? parser.reasoning == chat::ReasoningFormat::kNone : place >= markers) continue;
    parser.marker_tokens |= chat::MarkerSet{1} << place;
    out->tokens.emplace_back(token, place);
  }
  out->show_reasoning = fields.include_reasoning.value_or(true);
  out->whole_reasoning = !fields.stream_reasoning.value_or(true);
  return out;
}

void ChatDialect::require_calls(RequestFields& fields) const {
  if (fields.tool_choice != ToolChoice::kRequired) return;
  if (!fields.response_format) fields.response_format.emplace();
  fields.response_format->tool_calls =
      chat::tool_calls_grammar(model_.tool_format, fields.tools.get_array(), fields.tool_name,
                               fields.parallel_tool_calls.value_or(true));
}

void ChatDialect::let_think(RequestFields& fields, chat::ThinkingStart start) const {
  if (!fields.response_format || start != chat::ThinkingStart::kOpen) return;
  if (model_.reasoning_format == chat::ReasoningFormat::kNone) return;
  fields.response_format->free_until = chat::kThinkEnd;
}

}  // namespace bulkhead::api
