#include "chat/tool_declaration.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat {
namespace {

namespace json = boost::json;

constexpr std::string_view kIndent = "  ";

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

// The member, or null where it is absent or null itself.
const json::value* member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string_view text_member(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  return value != nullptr && value->is_string() ? view(value->get_string()) : std::string_view();
}

// Thrown and caught in this file: the form cannot say this.
struct Unsayable {};

// A number or flag as Python prints it.
std::string python_text(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "None";
    case json::kind::bool_:
      return value.get_bool() ? "True" : "False";
    case json::kind::int64:
      return std::to_string(value.get_int64());
    case json::kind::uint64:
      return std::to_string(value.get_uint64());
    case json::kind::double_:
      return jinja::float_repr(value.get_double());
    case json::kind::string:
      return std::string(view(value.get_string()));
    default:
      throw Unsayable{};
  }
}

// As Python's json.dumps with its default separators.
void append_json(std::string& out, const json::value& value) {
  if (const json::object* object = value.if_object()) {
    out += '{';
    for (const auto& [name, one] : *object) {
      if (out.back() != '{') out += ", ";
      out += '"';
      base::append_json_escaped(out, {name.data(), name.size()});
      out += "\": ";
      append_json(out, one);
    }
    out += '}';
  } else if (const json::array* array = value.if_array()) {
    out += '[';
    for (const json::value& one : *array) {
      if (&one != array->data()) out += ", ";
      append_json(out, one);
    }
    out += ']';
  } else if (value.is_string()) {
    out += '"';
    base::append_json_escaped(out, view(value.get_string()));
    out += '"';
  } else if (value.is_bool() || value.is_null()) {
    out += value.is_null() ? "null" : value.get_bool() ? "true" : "false";
  } else {
    out += python_text(value);
  }
}

std::string comment(std::string_view text, std::string_view indent) {
  std::string out;
  while (true) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) out.append(indent).append("// ").append(line);
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

// One function's declaration. Schemas are read in the order of their keywords' precedence: $ref,
// anyOf, enum, type.
class Declaration {
 public:
  explicit Declaration(const json::object& function) : function_(function) {}

  std::string text() {
    const json::value* given = member(function_, "parameters");
    const json::object none;
    const json::object& parameters = given == nullptr ? none : object_of(*given);
    object_type(parameters, "");  // finds the definitions and what refers to what
    settled_ = true;
    std::vector<std::string> parts;
    if (self_reference_) parts.push_back(own_interface(parameters));
    // Those inside of definitions can be referred to, but are not written.
    const auto definitions = definitions_;
    for (const auto& [name, schema] : definitions) parts.push_back(interface(name, *schema));
    if (const std::string_view about = description(function_); !about.empty()) {
      parts.push_back(comment(about, ""));
    }
    std::string type = "type ";
    type += member(function_, "name") == nullptr ? "function" : text_member(function_, "name");
    type += " = (_: ";
    type += self_reference_ ? std::string(kOwnName) : object_type(parameters, "");
    type += ") => any;";
    parts.push_back(std::move(type));
    return joined(parts, "\n");
  }

 private:
  static constexpr std::string_view kOwnName = "parameters";
  static constexpr std::string_view kDefinitionPath = "#/$defs/";

  static const json::object& object_of(const json::value& value) {
    if (!value.is_object()) throw Unsayable{};
    return value.get_object();
  }

  static std::string_view description(const json::object& schema) {
    const json::value* about = member(schema, "description");
    if (about != nullptr && !about->is_string()) throw Unsayable{};
    return about == nullptr ? std::string_view() : view(about->get_string());
  }

  std::string interface(const std::string& name, const json::value& schema) {
    std::string out;
    if (const std::string_view about = description(object_of(schema)); !about.empty()) {
      out = comment(about, "") + '\n';
    }
    return out + "interface " + name + " " + type_of(schema, "");
  }

  // The parameters as an interface of their own, for those that refer to themselves.
  std::string own_interface(const json::object& parameters) {
    std::vector<std::string> fields;
    for (const Field& field : fields_of(parameters)) fields.push_back(field_text(field, kIndent));
    std::string out = "interface ";
    out += kOwnName;
    return out + (fields.empty() ? " {}" : " {\n" + joined(fields, ",\n") + "\n}");
  }

  struct Field {
    std::string_view name;
    const json::value* schema = nullptr;
    bool optional = true;
  };

  static std::vector<Field> fields_of(const json::object& schema) {
    std::vector<Field> fields;
    const json::value* properties = schema.if_contains("properties");
    if (properties == nullptr) return fields;
    std::vector<std::string_view> required;
    if (const json::value* names = schema.if_contains("required")) {
      if (!names->is_array()) throw Unsayable{};
      for (const json::value& name : names->get_array()) {
        if (name.is_string()) required.push_back(view(name.get_string()));
      }
    }
    for (const auto& [name, one] : object_of(*properties)) {
      const std::string_view text(name.data(), name.size());
      const bool needed = std::find(required.begin(), required.end(), text) != required.end();
      fields.push_back({text, &one, !needed});
    }
    return fields;
  }

  std::string field_text(const Field& field, const std::string_view indent) {
    std::string out = about(*field.schema, indent);
    const json::object* object = field.schema->if_object();
    const json::value* otherwise = object == nullptr ? nullptr : member(*object, "default");
    if (otherwise != nullptr) {
      out.append(indent).append("// Default: ");
      const bool plain = otherwise->is_number() || otherwise->is_bool();
      plain ? out.append(python_text(*otherwise)) : (append_json(out, *otherwise), out);
      out += '\n';
    }
    out.append(indent).append(field.name).append(field.optional ? "?: " : ": ");
    return out + type_of(*field.schema, indent);
  }

  // Description and limits of a value, as comment lines.
  std::string about(const json::value& value, std::string_view indent) {
    const json::object* schema = value.if_object();
    if (schema == nullptr) return {};
    std::string out;
    if (const std::string_view text = description(*schema); !text.empty()) {
      out = comment(text, indent) + '\n';
    }
    std::vector<std::string> limits;
    for (const std::string_view name : limits_of(*schema)) {
      if (const json::value* limit =
              schema->if_contains(json::string_view(name.data(), name.size()))) {
        limits.push_back(std::string(name) + ": " + python_text(*limit));
      }
    }
    if (!limits.empty()) out.append(indent).append("// ").append(joined(limits, ", ")) += '\n';
    return out;
  }

  static std::vector<std::string_view> limits_of(const json::object& schema) {
    for (const char* other : {"$ref", "anyOf", "enum"}) {
      if (schema.contains(other)) return {};
    }
    const std::string_view type = text_member(schema, "type");
    if (type == "string") return {"maxLength", "minLength", "pattern"};
    if (type == "number" || type == "integer") return {"maximum", "minimum"};
    if (type == "array") return {"maxItems", "minItems"};
    return {};
  }

  std::string type_of(const json::value& value, std::string_view indent) {
    if (value.is_bool()) return value.get_bool() ? "any" : "null";
    const json::object& schema = object_of(value);
    if (const json::value* to = schema.if_contains("$ref")) return reference(*to);
    if (const json::value* options = schema.if_contains("anyOf")) {
      if (!options->is_array()) throw Unsayable{};
      std::vector<std::string> types;
      for (const json::value& one : options->get_array()) types.push_back(type_of(one, indent));
      return joined(types, " | ");
    }
    if (schema.contains("enum")) return enumeration(schema);
    const json::value* type = schema.if_contains("type");
    if (type == nullptr) {
      if (!schema.empty()) throw Unsayable{};
      return "any";
    }
    if (type->is_array()) return union_type(type->get_array());
    if (!type->is_string()) throw Unsayable{};
    const std::string_view name = view(type->get_string());
    if (name == "object") return object_type(schema, indent);
    if (name == "array") return array_type(schema, indent);
    return std::string(name == "integer" ? "number" : name);
  }

  std::string reference(const json::value& to) {
    if (!to.is_string()) throw Unsayable{};
    const std::string_view path = view(to.get_string());
    if (path == "#") {
      self_reference_ = true;
      return std::string(kOwnName);
    }
    if (!path.starts_with(kDefinitionPath)) throw Unsayable{};
    const std::string name(path.substr(path.rfind('/') + 1));
    const bool known = std::any_of(definitions_.begin(), definitions_.end(),
                                   [&](const auto& one) { return one.first == name; });
    if (settled_ && !known) throw Unsayable{};
    return name;
  }

  static std::string union_type(const json::array& names) {
    static const std::map<std::string_view, std::string_view> kTypes = {
        {"string", "string"}, {"number", "number"}, {"integer", "number"},  {"boolean", "boolean"},
        {"null", "null"},     {"object", "{}"},     {"array", "Array<any>"}};
    std::vector<std::string> types;
    for (const json::value& name : names) {
      const auto found = name.is_string() ? kTypes.find(view(name.get_string())) : kTypes.end();
      if (found == kTypes.end()) throw Unsayable{};
      types.emplace_back(found->second);
    }
    return joined(types, " | ");
  }

  static std::string enumeration(const json::object& schema) {
    const json::value& options = schema.at("enum");
    if (!options.is_array()) throw Unsayable{};
    const std::string_view type = enumerated_type(schema);
    std::vector<std::string> out;
    for (const json::value& option : options.get_array()) {
      const bool number = option.is_number() || option.is_bool();  // Python's flags are integers
      const bool whole = number && !option.is_double();
      if (!option.is_null() &&
          ((type == "string" && !option.is_string()) || (type == "number" && !number) ||
           (type == "integer" && !whole) || (type == "boolean" && !option.is_bool()))) {
        throw Unsayable{};
      }
      const std::string text = python_text(option);
      out.push_back(option.is_string() ? '"' + text + '"' : text);
    }
    return joined(out, " | ");
  }

  // The type that an enumeration's values must have; empty: any.
  static std::string_view enumerated_type(const json::object& schema) {
    const json::value* type = schema.if_contains("type");
    if (type == nullptr) return {};
    if (type->is_string()) return view(type->get_string());
    if (!type->is_array()) return {};
    std::vector<std::string_view> names;
    for (const json::value& one : type->get_array()) {
      names.push_back(one.is_string() ? view(one.get_string()) : std::string_view());
    }
    if (names.size() == 1) return names.front();
    if (names.size() != 2 || (names[0] != "null" && names[1] != "null")) throw Unsayable{};
    return names[0] != "null" ? names[0] : names[1];
  }

  std::string array_type(const json::object& schema, std::string_view indent) {
    const json::value* items = member(schema, "items");
    const bool empty = items == nullptr || (items->is_bool() && !items->get_bool()) ||
                       (items->is_object() && items->get_object().empty());
    if (empty) return "Array<any>";
    const std::string inner = std::string(indent).append(kIndent);
    const std::string comments = about(*items, inner);
    if (comments.empty()) return "Array<" + type_of(*items, indent) + ">";
    std::string out = "Array<\n" + comments + inner + type_of(*items, inner) + "\n";
    return out.append(indent).append(">");
  }

  std::string object_type(const json::object& schema, std::string_view indent) {
    if (const json::value* definitions = schema.if_contains("$defs")) define(*definitions);
    const std::string inner = std::string(indent).append(kIndent);
    std::vector<Field> fields = fields_of(schema);
    std::sort(fields.begin(), fields.end(), [](const Field& a, const Field& b) {
      return std::pair(a.optional, a.name) < std::pair(b.optional, b.name);
    });
    std::vector<std::string> lines;
    lines.reserve(fields.size() + 1);
    for (const Field& field : fields) lines.push_back(field_text(field, inner));
    if (const json::value* more = member(schema, "additionalProperties")) {
      const bool never = more->is_bool() && !more->get_bool();
      lines.push_back(inner + "[k: string]: " + (never ? "never" : type_of(*more, inner)));
    }
    if (lines.empty()) return "{}";
    std::string out = "{\n" + joined(lines, ",\n") + "\n";
    return out.append(indent).append("}");
  }

  void define(const json::value& definitions) {
    if (definitions.is_null()) return;
    for (const auto& [key, schema] : object_of(definitions)) {
      const std::string name(key.data(), key.size());
      const auto found = std::find_if(definitions_.begin(), definitions_.end(),
                                      [&](const auto& one) { return one.first == name; });
      if (found != definitions_.end()) {
        found->second = &schema;
      } else {
        definitions_.emplace_back(name, &schema);
      }
    }
  }

  const json::object& function_;
  std::vector<std::pair<std::string, const json::value*>> definitions_;
  bool self_reference_ = false;
  bool settled_ = false;  // all definitions of the parameters are known
};

}  // namespace

json::value sorted_deeply(const json::value& value) {
  if (const json::array* array = value.if_array()) {
    json::array out;
    out.reserve(array->size());
    for (const json::value& one : *array) out.push_back(sorted_deeply(one));
    return out;
  }
  const json::object* object = value.if_object();
  if (object == nullptr) return value;
  std::map<std::string_view, const json::value*> members;
  for (const auto& [name, one] : *object) {
    members[std::string_view(name.data(), name.size())] = &one;
  }
  json::object out;
  for (const auto& [name, one] : members) {
    out[json::string_view(name.data(), name.size())] = sorted_deeply(*one);
  }
  return out;
}

std::optional<std::string> typescript_declarations(const json::array& tools) {
  std::vector<std::string> functions;
  try {
    for (const json::value& tool : tools) {
      const json::object* object = tool.if_object();
      if (object == nullptr || text_member(*object, "type") != "function") continue;
      const json::value* function = member(*object, "function");
      if (function == nullptr || !function->is_object() || function->get_object().empty()) continue;
      functions.push_back(Declaration(function->get_object()).text());
    }
  } catch (const Unsayable&) {
    return std::nullopt;
  }
  if (functions.empty()) return std::string();
  return "# Tools\n\n## functions\nnamespace functions {\n" + joined(functions, "\n") + "\n}\n";
}

}  // namespace bulkhead::chat
