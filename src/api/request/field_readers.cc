#include "api/request/field_readers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "api/request/json_input.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

Failure wrong_type(std::string_view path, std::string_view wanted, const json::value& given) {
  return invalid_type(std::string(path), fmt::format("{} must be {}, but {} was given", path,
                                                     wanted, describe(given)));
}

Failure read_token_id(const json::value& value, std::string_view path, const DecodeContext& context,
                      wire::TokenId& out) {
  int64_t id = 0;
  if (Failure failure = read_integer(value, path, 0, context.vocabulary_size - 1, id)) {
    return failure;
  }
  out = static_cast<wire::TokenId>(id);
  return std::nullopt;
}

Failure read_stop_string(const json::value& value, std::string_view path, RequestFields& out) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view text = view(value.get_string());
  if (text.empty()) {
    return invalid_value(std::string(path), fmt::format("{} must not be an empty string", path));
  }
  if (text.size() > kStopBytesMax) {
    return invalid_value(std::string(path),
                         fmt::format("{} may have at most {} bytes, but it has {}", path,
                                     kStopBytesMax, text.size()));
  }
  out.stop.emplace_back(text);
  return std::nullopt;
}

Failure too_many(std::string_view path, size_t limit, size_t given) {
  return invalid_value(
      std::string(path),
      fmt::format("{} may have at most {} entries, but {} were given", path, limit, given));
}

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

// An array of token ids.
Failure read_prompt_ids(const json::array& array, std::string_view path,
                        const DecodeContext& context, RequestFields& out) {
  std::vector<wire::TokenId> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    wire::TokenId id = 0;
    if (Failure failure = read_token_id(array[i], at_index(path, i), context, id)) {
      return failure;
    }
    ids.push_back(id);
  }
  out.prompt_ids = std::move(ids);
  return std::nullopt;
}

}  // namespace

Failure read_number(const json::value& value, std::string_view path, const NumberRule& rule,
                    double& out) {
  double number = 0;
  if (value.is_double()) {
    number = value.get_double();
  } else if (value.is_int64()) {
    number = static_cast<double>(value.get_int64());
  } else if (value.is_uint64()) {
    number = static_cast<double>(value.get_uint64());
  } else {
    return wrong_type(path, "a number", value);
  }
  const bool low = rule.above_min ? number <= rule.min : number < rule.min;
  if (!std::isfinite(number) || low || number > rule.max) {
    return invalid_value(std::string(path),
                         fmt::format("{} must be {} {} and at most {}, but {} was given", path,
                                     rule.above_min ? "greater than" : "at least", rule.min,
                                     rule.max, describe(value)));
  }
  out = number;
  return std::nullopt;
}

Failure read_integer(const json::value& value, std::string_view path, int64_t min, int64_t max,
                     int64_t& out) {
  // Doubles hold every whole number up to here exactly.
  constexpr double kExactMax = 9007199254740992.0;
  const auto outside = [&]() -> Failure {
    return invalid_value(std::string(path),
                         fmt::format("{} must be at least {} and at most {}, but {} was given",
                                     path, min, max, describe(value)));
  };
  int64_t number = 0;
  if (value.is_int64()) {
    number = value.get_int64();
  } else if (value.is_uint64()) {
    return outside();  // the parser uses uint64 only above 2^63 - 1
  } else if (value.is_double()) {
    const double given = value.get_double();
    if (!std::isfinite(given) || std::abs(given) > kExactMax) return outside();
    if (given != std::trunc(given)) return wrong_type(path, "a whole number", value);
    number = static_cast<int64_t>(given);
  } else {
    return wrong_type(path, "a whole number", value);
  }
  if (number < min || number > max) return outside();
  out = number;
  return std::nullopt;
}

Failure read_bool(const json::value& value, std::string_view path, bool& out) {
  if (!value.is_bool()) return wrong_type(path, "true or false", value);
  out = value.get_bool();
  return std::nullopt;
}

Failure read_model(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_string()) return wrong_type("model", "a string", value);
  out.model = std::string(view(value.get_string()));
  return std::nullopt;
}

Failure read_stop(json::value& value, const DecodeContext&, RequestFields& out) {
  if (value.is_string()) return read_stop_string(value, "stop", out);
  if (!value.is_array()) return wrong_type("stop", "a string or an array of strings", value);
  const json::array& array = value.get_array();
  if (array.size() > kStopStringsMax) return too_many("stop", kStopStringsMax, array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    if (Failure failure = read_stop_string(array[i], at_index("stop", i), out)) return failure;
  }
  return std::nullopt;
}

Failure read_stop_token_ids(json::value& value, const DecodeContext& context, RequestFields& out) {
  if (!value.is_array()) return wrong_type("stop_token_ids", "an array of token ids", value);
  const json::array& array = value.get_array();
  if (array.size() > kStopTokenIdsMax) {
    return too_many("stop_token_ids", kStopTokenIdsMax, array.size());
  }
  for (size_t i = 0; i < array.size(); ++i) {
    wire::TokenId id = 0;
    if (Failure failure = read_token_id(array[i], at_index("stop_token_ids", i), context, id)) {
      return failure;
    }
    out.stop_token_ids.push_back(id);
  }
  return std::nullopt;
}

Failure read_logit_bias(json::value& value, const DecodeContext& context, RequestFields& out) {
  if (!value.is_object()) return wrong_type("logit_bias", "an object", value);
  const json::object& object = value.get_object();
  if (object.size() > kLogitBiasMax) return too_many("logit_bias", kLogitBiasMax, object.size());
  constexpr NumberRule kRange{-100, 100, false, nullptr};
  for (const auto& entry : object) {
    const std::string_view key(entry.key().data(), entry.key().size());
    wire::TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    // The plain spelling only, so that no two keys mean the same id.
    if (error != std::errc() || end != key.data() + key.size() || id < 0 ||
        id >= context.vocabulary_size || fmt::format("{}", id) != key) {
      return invalid_value("logit_bias",
                           fmt::format("logit_bias has a key that is no token id: ids are whole "
                                       "numbers from 0 to {}",
                                       context.vocabulary_size - 1));
    }
    double bias = 0;
    if (Failure failure = read_number(entry.value(), at_key("logit_bias", key), kRange, bias)) {
      return failure;
    }
    out.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return std::nullopt;
}

Failure read_stream_options(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_object()) return wrong_type("stream_options", "an object", value);
  out.stream_options = true;
  const auto read = [&value](std::string_view name, std::optional<bool>& to) -> Failure {
    const json::value* flag =
        value.get_object().if_contains(json::string_view(name.data(), name.size()));
    if (flag == nullptr || flag->is_null()) return std::nullopt;
    return read_bool(*flag, at_key("stream_options", name), to.emplace());
  };
  if (Failure failure = read("include_usage", out.include_usage)) return failure;
  return read("continuous_usage_stats", out.continuous_usage_stats);
}

Failure read_response_format(json::value& value, const DecodeContext&, RequestFields&) {
  if (!value.is_object()) return wrong_type("response_format", "an object", value);
  const json::value* type = value.get_object().if_contains("type");
  const std::string path = "response_format.type";
  if (type == nullptr) return missing_parameter(path, path + " is required");
  if (!type->is_string()) return wrong_type(path, "a string", *type);
  const std::string_view text = view(type->get_string());
  if (text == "text") return std::nullopt;
  if (text == "json_object" || text == "json_schema" || text == "structural_tag") {
    return unsupported_parameter(
        path, fmt::format("{} '{}' is not supported: constrained output is not part of this build",
                          path, text));
  }
  return invalid_value(path, path + " must be 'text'");
}

Failure read_prompt(json::value& value, const DecodeContext& context, RequestFields& out) {
  if (value.is_string()) {
    out.prompt_text = std::string(view(value.get_string()));
    return std::nullopt;
  }
  if (!value.is_array()) return wrong_type("prompt", "a string or an array", value);
  const json::array& array = value.get_array();
  if (array.empty()) return invalid_value("prompt", "prompt must not be an empty array");
  const json::value& first = array.front();
  if (!first.is_string() && !first.is_array())
    return read_prompt_ids(array, "prompt", context, out);
  if (array.size() > 1) {
    return unsupported_parameter(
        "prompt",
        fmt::format("prompt may hold one prompt in this build, but {} were given", array.size()));
  }
  if (first.is_string()) {
    out.prompt_text = std::string(view(first.get_string()));
    return std::nullopt;
  }
  if (first.get_array().empty()) {
    return invalid_value("prompt[0]", "prompt[0] must not be an empty array");
  }
  return read_prompt_ids(first.get_array(), "prompt[0]", context, out);
}

Failure read_chat_template_kwargs(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_object()) return wrong_type("chat_template_kwargs", "an object", value);
  for (const std::string_view name :
       {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (value.get_object().contains(json::string_view(name.data(), name.size()))) {
      return invalid_value(
          at_key("chat_template_kwargs", name),
          fmt::format("chat_template_kwargs must not set {}: the server does", name));
    }
  }
  out.chat_template_kwargs = std::move(value.get_object());
  return std::nullopt;
}

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
  if (value.is_object() || (value.is_string() && value.get_string() == "required")) {
    return unsupported_parameter(
        path, "tool_choice may be 'none' or 'auto': forcing a call is not part of this build");
  }
  if (!value.is_string()) return wrong_type(path, "a string or an object", value);
  const std::string_view text = view(value.get_string());
  if (text != "none" && text != "auto") {
    return invalid_value(path,
                         "tool_choice must be 'none', 'auto', 'required' or a named function");
  }
  out.tools_allowed = text == "auto";
  return std::nullopt;
}

}  // namespace bulkhead::api
