#include "apps/eval/tasks/call_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "apps/drill/json_members.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

// What the values of a type are in Python.
enum class Kind { kString, kInteger, kFloat, kBoolean, kList, kDict, kNone };

Kind kind_of(const json::value& value) {
  if (value.is_string()) return Kind::kString;
  if (value.is_int64() || value.is_uint64()) return Kind::kInteger;
  if (value.is_double()) return Kind::kFloat;
  if (value.is_bool()) return Kind::kBoolean;
  if (value.is_array()) return Kind::kList;
  return value.is_object() ? Kind::kDict : Kind::kNone;
}

Kind kind_of_type(std::string_view type) {
  if (type == "integer") return Kind::kInteger;
  if (type == "float" || type == "number") return Kind::kFloat;
  if (type == "boolean") return Kind::kBoolean;
  if (type == "array" || type == "tuple") return Kind::kList;
  return type == "dict" || type == "object" ? Kind::kDict : Kind::kString;  // "any" is a text
}

bool equal(const json::value& a, const json::value& b);

bool equal_lists(const json::array& a, const json::array& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool equal_dicts(const json::object& a, const json::object& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&b](const auto& pair) {
           const json::value* other = b.if_contains(pair.key());
           return other != nullptr && equal(pair.value(), *other);
         });
}

std::optional<double> as_number(const json::value& value) {
  if (value.is_bool()) return value.as_bool() ? 1.0 : 0.0;
  return value.is_number() ? std::optional(value.to_number<double>()) : std::nullopt;
}

// Python's ==: numbers by value, True as 1.
bool equal(const json::value& a, const json::value& b) {
  if (a.is_array() && b.is_array()) return equal_lists(a.as_array(), b.as_array());
  if (a.is_object() && b.is_object()) return equal_dicts(a.as_object(), b.as_object());
  const std::optional<double> left = as_number(a), right = as_number(b);
  if (left && right) return *left == *right;
  return a == b;
}

std::string plain_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (std::string_view(" ,./-_*^").find(c) != std::string_view::npos) continue;
    out += c == '\'' ? '"' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

json::value plain(const json::value& value) {
  return value.is_string() ? json::value(plain_text(value.as_string())) : value;
}

json::array plain_list(const json::array& values) {
  json::array out;
  for (const json::value& value : values) out.push_back(plain(value));
  return out;
}

bool is_empty_text(const json::value& value) {
  return value.is_string() && value.as_string().empty();
}

bool contains(const json::array& values, const json::value& wanted) {
  return std::any_of(values.begin(), values.end(),
                     [&wanted](const json::value& value) { return equal(value, wanted); });
}

bool may_be_absent(const json::value& allowed) {
  return allowed.is_array() &&
         std::any_of(allowed.as_array().begin(), allowed.as_array().end(), is_empty_text);
}

// The type of the first allowed value that is one.
std::optional<Kind> kind_allowed(const json::array& allowed) {
  for (const json::value& value : allowed) {
    if (!is_empty_text(value)) return kind_of(value);
  }
  return std::nullopt;
}

struct TypeFit {
  bool fits = false;
  // The set wants something of another type than described, such as the name of a variable: it is
  // compared as it stands.
  bool is_variable = false;
};

TypeFit fit_type(const json::value& value, const json::array& allowed, Kind type,
                 std::optional<Kind> nested) {
  const std::optional<Kind> wanted = kind_allowed(allowed);
  const bool variable = wanted && *wanted != type;
  if (kind_of(value) == type) {
    if (!nested) return {true, variable};
    for (const json::value& one : allowed) {
      const auto fits = [&one, nested](const json::value& item) {
        return fit_type(item, one.as_array(), *nested, std::nullopt).fits;
      };
      const json::array& items = elements_of(&value);
      if (!one.is_array() || std::all_of(items.begin(), items.end(), fits)) {
        return {true, variable};
      }
    }
    return {false, false};
  }
  return {wanted && kind_of(value) == *wanted, true};
}

bool dict_fits_one(const json::object& value, const json::object& allowed) {
  for (const auto& [key, item] : value) {
    const json::value* values = allowed.if_contains(key);
    if (values == nullptr || !contains(plain_list(elements_of(values)), plain(item))) return false;
  }
  return std::all_of(allowed.begin(), allowed.end(), [&value](const auto& pair) {
    return value.contains(pair.key()) || may_be_absent(pair.value());
  });
}

bool dict_fits(const json::value& value, const json::array& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&value](const json::value& one) {
    return one.is_object() && value.is_object() &&
           dict_fits_one(value.as_object(), one.as_object());
  });
}

// In the same order.
bool dict_list_fits(const json::array& values, const json::array& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&values](const json::value& one) {
    const json::array& dicts = elements_of(&one);
    if (dicts.size() != values.size()) return false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!dict_fits(values[i], json::array{dicts[i]})) return false;
    }
    return true;
  });
}

bool list_fits(const json::array& values, const json::array& allowed) {
  const json::array wanted = plain_list(values);
  return std::any_of(allowed.begin(), allowed.end(), [&wanted](const json::value& one) {
    return (one.is_array() && equal_lists(plain_list(one.as_array()), wanted)) ||
           (is_empty_text(one) && wanted.empty());
  });
}

bool value_fits(const json::value& value, const json::array& allowed, Kind type,
                std::optional<Kind> nested, bool is_variable) {
  if (is_variable) return contains(allowed, value);
  if (type == Kind::kDict) return dict_fits(value, allowed);
  if (type == Kind::kList && nested == Kind::kDict) {
    return dict_list_fits(elements_of(&value), allowed);
  }
  if (type == Kind::kString) return contains(plain_list(allowed), plain(value));
  if (type == Kind::kList) return list_fits(elements_of(&value), allowed);
  return contains(allowed, value);
}

struct Parameter {
  Kind type = Kind::kString;
  std::optional<Kind> nested;
};

Parameter parameter_of(const json::value& described) {
  const std::string type = text_of(member(&described, "type"));
  Parameter parameter{kind_of_type(type), std::nullopt};
  if (parameter.type == Kind::kList) {
    const std::string inner = text_of(member(member(&described, "items"), "type"));
    if (!inner.empty()) parameter.nested = kind_of_type(inner);
  }
  return parameter;
}

// A whole number will do for a float.
json::value widened(const json::value& value, Kind type) {
  return type == Kind::kFloat && kind_of(value) == Kind::kInteger
             ? json::value(value.to_number<double>())
             : value;
}

std::string parameter_fault(const std::string& name, const json::value& given,
                            const json::value& described, const json::array& allowed) {
  const Parameter parameter = parameter_of(described);
  const json::value value = widened(given, parameter.type);
  const TypeFit fit = fit_type(value, allowed, parameter.type, parameter.nested);
  if (!fit.fits) return fmt::format("'{}' has another type", name);
  if (!value_fits(value, allowed, parameter.type, parameter.nested, fit.is_variable)) {
    return fmt::format("'{}' has another value", name);
  }
  return "";
}

std::string missing_fault(const json::object& function, const json::object& arguments) {
  for (const json::value& name :
       elements_of(member(function.if_contains("parameters"), "required"))) {
    if (name.is_string() && !arguments.contains(name.as_string())) {
      return fmt::format("'{}' is missing", text_of(&name));
    }
  }
  return "";
}

const json::object* described_as(const FunctionList& functions, const std::string& name) {
  for (const json::object& function : functions) {
    if (api_name(text_of(function.if_contains("name"))) == name) return &function;
  }
  return nullptr;
}

}  // namespace

std::optional<std::vector<DecodedCall>> decode_calls(const std::vector<ToolCall>& calls) {
  std::vector<DecodedCall> decoded;
  decoded.reserve(calls.size());
  for (const ToolCall& call : calls) {
    boost::system::error_code bad;
    json::value value = json::parse(call.arguments, bad);
    if (bad || !value.is_object()) return std::nullopt;
    decoded.push_back({call.name, std::move(value.as_object())});
  }
  return decoded;
}

std::string api_name(const std::string& name) { return replaced(name, ".", "_"); }

std::string call_fault(const json::object& function, const DecodedCall& call,
                       const json::object& wanted) {
  const std::string name = api_name(text_of(function.if_contains("name")));
  if (call.name != name) return fmt::format("'{}' is called, not '{}'", call.name, name);
  if (std::string fault = missing_fault(function, call.arguments); !fault.empty()) return fault;
  const json::value* properties = member(function.if_contains("parameters"), "properties");
  const json::value* parameters = wanted.empty() ? nullptr : &wanted.begin()->value();
  for (const auto& [key, value] : call.arguments) {
    const json::value* described = member(properties, key);
    const json::value* allowed = member(parameters, key);
    if (described == nullptr || allowed == nullptr) {
      return fmt::format("'{}' is too much", std::string(key));
    }
    std::string fault = parameter_fault(key, value, *described, elements_of(allowed));
    if (!fault.empty()) return fault;
  }
  if (parameters == nullptr || !parameters->is_object()) return "";
  for (const auto& [key, allowed] : parameters->as_object()) {
    if (!call.arguments.contains(key) && !may_be_absent(allowed)) {
      return fmt::format("'{}' is missing", std::string(key));
    }
  }
  return "";
}

std::string calls_fault(const FunctionList& functions, const std::vector<DecodedCall>& calls,
                        const std::vector<json::object>& wanted) {
  if (calls.size() != wanted.size()) {
    return fmt::format("{} calls instead of {}", calls.size(), wanted.size());
  }
  std::vector<bool> used(calls.size(), false);
  for (const json::object& one : wanted) {
    const std::string name = one.empty() ? "" : std::string(one.begin()->key());
    // A set of one function does not name it again.
    const json::object* function =
        functions.size() == 1 ? &functions[0] : described_as(functions, api_name(name));
    if (function == nullptr) return fmt::format("'{}' is not described", name);
    std::string fault = "no call is left";
    for (size_t i = 0; i < calls.size() && !fault.empty(); ++i) {
      if (used[i]) continue;
      fault = call_fault(*function, calls[i], one);
      used[i] = fault.empty();
    }
    if (!fault.empty()) return fault;
  }
  return "";
}

std::string validity_fault(const FunctionList& functions, const std::vector<DecodedCall>& calls) {
  for (const DecodedCall& call : calls) {
    const json::object* function = described_as(functions, call.name);
    if (function == nullptr) return fmt::format("'{}' is no function", call.name);
    if (std::string fault = missing_fault(*function, call.arguments); !fault.empty()) return fault;
    const json::value* properties = member(function->if_contains("parameters"), "properties");
    for (const auto& [key, value] : call.arguments) {
      const json::value* described = member(properties, key);
      if (described == nullptr) return fmt::format("'{}' is too much", std::string(key));
      const std::string type = text_of(member(described, "type"));
      const Parameter parameter = parameter_of(*described);
      const Kind kind = kind_of(widened(value, parameter.type));
      if (type != "any" && kind != parameter.type) {
        return fmt::format("'{}' has another type", std::string(key));
      }
    }
  }
  return "";
}

}  // namespace bulkhead::apps::eval
