#include "chat/template_traits.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <string>
#include <utility>

namespace bulkhead::chat {
namespace {

namespace json = boost::json;

// A name that no template writes by itself.
constexpr std::string_view kNeedle = "bulkhead_probe";
constexpr const char* kArguments = R"({"bulkhead_probe": "needle"})";
constexpr const char* kConversation = R"([
  {"role": "user", "content": "a"},
  {"role": "assistant", "content": "", "tool_calls": [
    {"id": "functions.f:0", "type": "function", "function": {"name": "f"}}]},
  {"role": "tool", "content": "b", "tool_call_id": "functions.f:0", "name": "f"},
  {"role": "assistant", "content": "c"},
  {"role": "user", "content": "d"}])";
constexpr const char* kTools = R"([{"type": "function", "function":
  {"name": "f", "description": "g", "parameters": {"type": "object", "properties": {}}}}])";

// The template's rendering of a call with these arguments; empty where it refuses.
std::string rendered(const ChatTemplate& compiled, json::value arguments) {
  RenderInput input;
  input.messages = json::parse(kConversation);
  input.messages.at(1).at("tool_calls").at(0).at("function").get_object()["arguments"] =
      std::move(arguments);
  input.tools = json::parse(kTools);
  const auto prompt = compiled.render(input);
  return prompt.ok() ? prompt->text() : std::string();
}

}  // namespace

TemplateTraits probe_template(const ChatTemplate& compiled, std::string_view source) {
  TemplateTraits out;
  out.typescript_tools = source.find("tools_ts_str") != std::string_view::npos;
  // A template that writes text as a JSON string escapes its quotes.
  const std::string text = rendered(compiled, kArguments);
  out.text_arguments = text.find(kArguments) != std::string::npos;
  const std::string object = rendered(compiled, json::parse(kArguments));
  out.object_arguments = object.find(kNeedle) != std::string::npos || !out.text_arguments;
  return out;
}

}  // namespace bulkhead::chat
