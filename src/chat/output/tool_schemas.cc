#include "chat/output/tool_schemas.h"

#include <boost/json/parse.hpp>
#include <functional>

#include "base/json_writer.h"

namespace bulkhead::chat {
namespace {

namespace json = boost::json;

// Of references and alternatives inside each other.
constexpr int kSchemaDepthMax = 8;
// Alternatives looked at for one argument.
constexpr int kSchemasMax = 256;
constexpr size_t kValueDepthMax = 64;

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }
json::string_view key(std::string_view text) { return {text.data(), text.size()}; }

constexpr JsonTypes bit(JsonType type) { return static_cast<JsonTypes>(type); }

JsonTypes named_type(std::string_view name) {
  if (name == "string") return bit(JsonType::kString);
  if (name == "number" || name == "integer") return bit(JsonType::kNumber);
  if (name == "boolean") return bit(JsonType::kBoolean);
  if (name == "null") return bit(JsonType::kNull);
  if (name == "array") return bit(JsonType::kArray);
  if (name == "object") return bit(JsonType::kObject);
  return 0;
}

JsonTypes type_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return bit(JsonType::kNull);
    case json::kind::bool_:
      return bit(JsonType::kBoolean);
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return bit(JsonType::kNumber);
    case json::kind::string:
      return bit(JsonType::kString);
    case json::kind::array:
      return bit(JsonType::kArray);
    case json::kind::object:
      return bit(JsonType::kObject);
  }
  return 0;
}

class TypeFinder {
 public:
  explicit TypeFinder(const json::object& root) : root_(root) {}

  JsonTypes find(const json::value& schema, int depth = 0) {
    const json::object* object = schema.if_object();
    if (object == nullptr || depth > kSchemaDepthMax || ++looked_at_ > kSchemasMax) return 0;
    if (const json::value* type = object->if_contains("type")) return stated(*type);
    if (const json::value* fixed = object->if_contains("const")) return type_of(*fixed);
    JsonTypes types = 0;
    if (const json::value* options = object->if_contains("enum"); options && options->is_array()) {
      for (const json::value& option : options->get_array()) types |= type_of(option);
      return types;
    }
    if (const json::value* to = object->if_contains("$ref"); to && to->is_string()) {
      return referred(view(to->get_string()), depth);
    }
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      const json::value* options = object->if_contains(name);
      if (options == nullptr || !options->is_array()) continue;
      for (const json::value& option : options->get_array()) types |= find(option, depth + 1);
    }
    return types;
  }

 private:
  static JsonTypes stated(const json::value& type) {
    if (type.is_string()) return named_type(view(type.get_string()));
    JsonTypes types = 0;
    if (!type.is_array()) return types;
    for (const json::value& one : type.get_array()) {
      if (one.is_string()) types |= named_type(view(one.get_string()));
    }
    return types;
  }

  // "#/$defs/city" and the like; elsewhere nothing is looked up.
  JsonTypes referred(std::string_view path, int depth) {
    if (!path.starts_with("#/")) return 0;
    path.remove_prefix(2);
    const json::object* at = &root_;
    while (true) {
      const size_t slash = path.find('/');
      const json::value* next = at->if_contains(key(path.substr(0, slash)));
      if (next == nullptr) return 0;
      if (slash == std::string_view::npos) return find(*next, depth + 1);
      at = next->if_object();
      if (at == nullptr) return 0;
      path.remove_prefix(slash + 1);
    }
  }

  const json::object& root_;
  int looked_at_ = 0;
};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  base::append_json_escaped(out, text);
  return out + '"';
}

}  // namespace

ToolSchemas::ToolSchemas(const json::value& tools) {
  const json::array* all = tools.if_array();
  if (all == nullptr) return;
  for (const json::value& tool : *all) {
    const json::object* object = tool.if_object();
    const json::value* function = object == nullptr ? nullptr : object->if_contains("function");
    if (function == nullptr || !function->is_object()) continue;
    const json::value* name = function->get_object().if_contains("name");
    if (name == nullptr || !name->is_string()) continue;
    const json::value* parameters = function->get_object().if_contains("parameters");
    parameters_[std::string(view(name->get_string()))] =
        parameters != nullptr && parameters->is_object() ? parameters->get_object()
                                                         : json::object();
  }
}

JsonTypes ToolSchemas::types_of(std::string_view function, std::string_view argument) const {
  const auto found = parameters_.find(function);
  if (found == parameters_.end()) return 0;
  const json::value* properties = found->second.if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return 0;
  const json::value* schema = properties->get_object().if_contains(key(argument));
  return schema == nullptr ? JsonTypes{0} : TypeFinder(found->second).find(*schema);
}

std::string typed_value(std::string_view text, JsonTypes types) {
  if (types == bit(JsonType::kString)) return quoted(text);
  json::error_code error;
  json::parse_options options;
  options.max_depth = kValueDepthMax;
  const json::value value = json::parse(key(text), error, {}, options);
  if (error) return quoted(text);
  if (allows(types, JsonType::kString) && (types & type_of(value)) == 0) return quoted(text);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first));
}

}  // namespace bulkhead::chat
