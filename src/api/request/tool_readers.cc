// Readers of tools and tool_choice.
#include <fmt/format.h>

#include <set>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/refusals.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

bool is_tool_name(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '_' && c != '-') return false;
  }
  return true;
}

Failure read_function(json::object& function, const std::string& path,
                      std::set<std::string, std::less<>>& names) {
  const std::string name_path = at_key(path, "name");
  const json::value* name = function.if_contains("name");
  if (name == nullptr) return missing_parameter(name_path, name_path + " is required");
  if (!name->is_string()) return wrong_type(name_path, "a string", *name);
  const std::string_view text = view(name->get_string());
  if (!is_tool_name(text)) {
    return invalid_value(
        name_path, name_path + " must have 1 to 64 characters out of a-z, A-Z, 0-9, '_' and '-'");
  }
  if (!names.emplace(text).second) {
    return invalid_value(name_path, name_path + " is used by more than one tool");
  }
  if (const json::value* description = function.if_contains("description");
      description != nullptr && !description->is_null() && !description->is_string()) {
    return wrong_type(at_key(path, "description"), "a string", *description);
  }
  if (const json::value* parameters = function.if_contains("parameters");
      parameters != nullptr && !parameters->is_null() && !parameters->is_object()) {
    return wrong_type(at_key(path, "parameters"), "an object", *parameters);
  }
  if (const json::value* strict = function.if_contains("strict");
      strict != nullptr && !strict->is_null() && !strict->is_bool()) {
    return wrong_type(at_key(path, "strict"), "a boolean", *strict);
  }
  return std::nullopt;
}

Failure read_tool(json::value& tool, const std::string& path,
                  std::set<std::string, std::less<>>& names) {
  if (!tool.is_object()) return wrong_type(path, "an object", tool);
  const std::string type_path = at_key(path, "type");
  const json::value* type = tool.get_object().if_contains("type");
  if (type == nullptr) return missing_parameter(type_path, type_path + " is required");
  if (!type->is_string()) return wrong_type(type_path, "a string", *type);
  if (type->get_string() != "function") {
    return invalid_value(type_path, type_path + " must be 'function', the one kind of tool here");
  }
  const std::string function_path = at_key(path, "function");
  json::value* function = tool.get_object().if_contains("function");
  if (function == nullptr) return missing_parameter(function_path, function_path + " is required");
  if (!function->is_object()) return wrong_type(function_path, "an object", *function);
  return read_function(function->get_object(), function_path, names);
}

// {"type": "function", "function": {"name": "f"}}
Failure read_named_tool(const json::object& choice, const std::string& path, RequestFields& out) {
  const json::value* type = choice.if_contains("type");
  if (type != nullptr && (!type->is_string() || type->get_string() != "function")) {
    return unsupported_parameter(at_key(path, "type"),
                                 at_key(path, "type") + " must be 'function'");
  }
  const std::string function_path = at_key(path, "function");
  const json::value* function = choice.if_contains("function");
  if (function == nullptr) return missing_parameter(function_path, function_path + " is required");
  if (!function->is_object()) return wrong_type(function_path, "an object", *function);
  const std::string name_path = at_key(function_path, "name");
  const json::value* name = function->get_object().if_contains("name");
  if (name == nullptr) return missing_parameter(name_path, name_path + " is required");
  if (!name->is_string()) return wrong_type(name_path, "a string", *name);
  if (name->get_string().empty()) return invalid_value(name_path, name_path + " is empty");
  out.tool_choice = ToolChoice::kRequired;
  out.tool_name = view(name->get_string());
  return std::nullopt;
}

}  // namespace

Failure read_tools(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_array()) return wrong_type("tools", "an array", value);
  json::array& array = value.get_array();
  if (array.empty()) {
    return invalid_value("tools", "tools must not be an empty array; leave it out instead");
  }
  if (array.size() > kToolsMax) return too_many("tools", kToolsMax, array.size());
  std::set<std::string, std::less<>> names;
  for (size_t i = 0; i < array.size(); ++i) {
    if (Failure failure = read_tool(array[i], at_index("tools", i), names)) return failure;
  }
  out.tools = std::move(value);
  return std::nullopt;
}

Failure read_tool_choice(json::value& value, const DecodeContext&, RequestFields& out) {
  const std::string path = "tool_choice";
  if (value.is_object()) return read_named_tool(value.get_object(), path, out);
  if (!value.is_string()) return wrong_type(path, "a string or an object", value);
  const std::string_view text = view(value.get_string());
  if (text != "none" && text != "auto" && text != "required") {
    return invalid_value(path,
                         "tool_choice must be 'none', 'auto', 'required' or a named function");
  }
  out.tool_choice = text == "auto"   ? ToolChoice::kAuto
                    : text == "none" ? ToolChoice::kNone
                                     : ToolChoice::kRequired;
  return std::nullopt;
}

}  // namespace bulkhead::api
