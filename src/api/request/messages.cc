#include "api/request/messages.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "api/request/json_input.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

// Tool-call arguments are JSON inside JSON; this bounds what parsing them may cost.
constexpr size_t kArgumentBytesMax = 4u << 20;

struct MessageReader {
  size_t argument_bytes = 0;
  bool partial = false;  // of the latest message

  Failure read(json::value& message, const std::string& path, json::object& out);
  Failure read_content(const json::value* content, const std::string& role, const std::string& path,
                       std::string& out);
  Failure read_tool_calls(json::value& calls, const std::string& path);
  Failure read_tool_call(json::value& call, const std::string& path);
  Failure read_arguments(json::value& arguments, const std::string& path);
  static Failure read_reasoning(json::object& message, const std::string& path);
  Failure read_partial(json::object& message, const std::string& role, const std::string& path);
};

Failure wrong_type(const std::string& path, std::string_view wanted, const json::value& given) {
  return invalid_type(path,
                      fmt::format("{} must be {}, but it is {}", path, wanted, describe(given)));
}

Failure read_role(const json::object& message, const std::string& path, std::string& role) {
  const std::string role_path = at_key(path, "role");
  const json::value* value = message.if_contains("role");
  if (value == nullptr || value->is_null()) {
    return missing_parameter(role_path, role_path + " is required");
  }
  if (!value->is_string()) return wrong_type(role_path, "a string", *value);
  role = std::string(view(value->get_string()));
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    return invalid_value(role_path,
                         role_path + " must be system, developer, user, assistant or tool");
  }
  return std::nullopt;
}

Failure read_part(const json::value& part, const std::string& path, std::string& out) {
  if (!part.is_object()) return wrong_type(path, "an object", part);
  const json::object& object = part.get_object();
  const std::string type_path = at_key(path, "type");
  const json::value* type = object.if_contains("type");
  if (type == nullptr) return missing_parameter(type_path, type_path + " is required");
  if (!type->is_string()) return wrong_type(type_path, "a string", *type);
  const std::string_view kind = view(type->get_string());
  if (kind != "text" && kind != "refusal") {
    for (const std::string_view known :
         {"image_url", "image", "input_audio", "audio_url", "video_url", "file", "input_image"}) {
      if (kind != known) continue;
      return unsupported_parameter(
          type_path,
          fmt::format("{} '{}' is not supported: this model takes text", type_path, known));
    }
    return invalid_value(type_path, type_path + " must be 'text'");
  }
  const std::string text_path = at_key(path, kind);
  const json::value* text = object.if_contains(json::string_view(kind.data(), kind.size()));
  if (text == nullptr) return missing_parameter(text_path, text_path + " is required");
  if (!text->is_string()) return wrong_type(text_path, "a string", *text);
  out += view(text->get_string());
  return std::nullopt;
}

Failure MessageReader::read_content(const json::value* content, const std::string& role,
                                    const std::string& path, std::string& out) {
  if (content == nullptr) {
    // An assistant turn may consist of tool calls alone.
    if (role == "assistant") return std::nullopt;
    return missing_parameter(path, path + " is required");
  }
  if (content->is_null()) return std::nullopt;
  if (content->is_string()) {
    out = std::string(view(content->get_string()));
    return std::nullopt;
  }
  if (!content->is_array()) {
    return wrong_type(path, "a string, null or an array of parts", *content);
  }
  const json::array& parts = content->get_array();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += '\n';
    if (Failure failure = read_part(parts[i], at_index(path, i), out)) return failure;
  }
  return std::nullopt;
}

Failure MessageReader::read_arguments(json::value& arguments, const std::string& path) {
  if (arguments.is_object()) return std::nullopt;
  if (!arguments.is_string()) return wrong_type(path, "a string of JSON", arguments);
  argument_bytes += arguments.get_string().size();
  if (argument_bytes > kArgumentBytesMax) {
    return invalid_value(path, fmt::format("the tool calls of one request may have at most {} "
                                           "bytes of arguments together",
                                           kArgumentBytesMax));
  }
  // No arguments at all are none. Other text may be no JSON, as a model once wrote it; the
  // conversation must go on all the same.
  if (view(arguments.get_string()).find_first_not_of(" \t\r\n") == std::string_view::npos) {
    arguments = json::object();
  }
  return std::nullopt;
}

Failure MessageReader::read_tool_call(json::value& call, const std::string& path) {
  if (!call.is_object()) return wrong_type(path, "an object", call);
  if (const json::value* id = call.get_object().if_contains("id"); id != nullptr) {
    if (!id->is_null() && !id->is_string()) {
      return wrong_type(at_key(path, "id"), "a string", *id);
    }
    if (id->is_null()) call.get_object().erase("id");
  }
  const std::string function_path = at_key(path, "function");
  json::value* function = call.get_object().if_contains("function");
  if (function == nullptr) return missing_parameter(function_path, function_path + " is required");
  if (!function->is_object()) return wrong_type(function_path, "an object", *function);
  json::object& object = function->get_object();
  const std::string name_path = at_key(function_path, "name");
  const json::value* name = object.if_contains("name");
  if (name == nullptr) return missing_parameter(name_path, name_path + " is required");
  if (!name->is_string()) return wrong_type(name_path, "a string", *name);
  json::value& arguments = object["arguments"];
  if (arguments.is_null()) arguments = json::object();
  return read_arguments(arguments, at_key(function_path, "arguments"));
}

Failure MessageReader::read_tool_calls(json::value& calls, const std::string& path) {
  if (!calls.is_array()) return wrong_type(path, "an array", calls);
  json::array& array = calls.get_array();
  for (size_t i = 0; i < array.size(); ++i) {
    if (Failure failure = read_tool_call(array[i], at_index(path, i))) return failure;
  }
  return std::nullopt;
}

// The reasoning of a past answer, under either of its names.
Failure MessageReader::read_reasoning(json::object& message, const std::string& path) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const json::value* text = message.if_contains(name);
    if (text == nullptr || text->is_null()) continue;
    if (!text->is_string()) return wrong_type(at_key(path, name), "a string", *text);
    const json::value* first = message.if_contains("reasoning_content");
    if (first == nullptr || first->is_null()) message["reasoning_content"] = json::value(*text);
  }
  message.erase("reasoning");
  return std::nullopt;
}

// An assistant's message that the answer goes on with.
Failure MessageReader::read_partial(json::object& message, const std::string& role,
                                    const std::string& path) {
  const std::string partial_path = at_key(path, "partial");
  if (partial) {
    return invalid_value(path, path + " follows a partial message, which must be the last one");
  }
  const json::value* flag = message.if_contains("partial");
  if (flag == nullptr || flag->is_null()) return std::nullopt;
  if (!flag->is_bool()) return wrong_type(partial_path, "a boolean", *flag);
  partial = flag->get_bool();
  if (partial && role != "assistant") {
    return invalid_value(partial_path, partial_path + " belongs in an assistant message");
  }
  message.erase("partial");
  return std::nullopt;
}

Failure MessageReader::read(json::value& message, const std::string& path, json::object& out) {
  if (!message.is_object()) return wrong_type(path, "an object", message);
  json::object& object = message.get_object();
  std::string role;
  if (Failure failure = read_role(object, path, role)) return failure;
  std::string content;
  if (Failure failure =
          read_content(object.if_contains("content"), role, at_key(path, "content"), content)) {
    return failure;
  }
  if (role == "tool") {
    const std::string id_path = at_key(path, "tool_call_id");
    const json::value* id = object.if_contains("tool_call_id");
    if (id == nullptr || id->is_null()) {
      return missing_parameter(id_path, id_path + " is required in a tool message");
    }
    if (!id->is_string()) return wrong_type(id_path, "a string", *id);
  }
  if (json::value* calls = object.if_contains("tool_calls");
      calls != nullptr && !calls->is_null()) {
    if (role != "assistant") {
      return invalid_value(at_key(path, "tool_calls"),
                           at_key(path, "tool_calls") + " belongs in assistant messages only");
    }
    if (Failure failure = read_tool_calls(*calls, at_key(path, "tool_calls"))) return failure;
  }
  if (Failure failure = read_reasoning(object, path)) return failure;
  if (Failure failure = read_partial(object, role, path)) return failure;
  out["role"] = role;
  out["content"] = content;
  for (auto& entry : object) {
    if (entry.key() == "role" || entry.key() == "content" || entry.value().is_null()) continue;
    out.insert_or_assign(entry.key(), std::move(entry.value()));
  }
  return std::nullopt;
}

}  // namespace

Failure read_messages(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_array()) {
    return wrong_type("messages", "an array of messages", value);
  }
  json::array& array = value.get_array();
  if (array.empty()) return invalid_value("messages", "messages must hold at least one message");
  MessageReader reader;
  json::array messages;
  messages.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    json::object message;
    if (Failure failure = reader.read(array[i], at_index("messages", i), message)) return failure;
    messages.emplace_back(std::move(message));
  }
  out.messages = std::move(messages);
  out.partial = reader.partial;
  return std::nullopt;
}

}  // namespace bulkhead::api
