// The reader of response_format.
#include <boost/json/serialize.hpp>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/refusals.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

constexpr size_t kNameMax = 64;

bool is_format_name(std::string_view name) {
  constexpr std::string_view kCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_not_of(kCharacters) == std::string_view::npos;
}

// The member `name` of `object`; null and absent are the same.
const json::value* member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

Failure read_schema(const json::value& schema, const std::string& path, RequestFields& out) {
  if (!schema.is_object()) return wrong_type(path, "an object", schema);
  out.response_format.emplace().json_schema = json::serialize(schema);
  return std::nullopt;
}

Failure read_json_schema(const json::object& format, RequestFields& out) {
  const std::string path = "response_format.json_schema";
  const json::value* given = member(format, "json_schema");
  if (given == nullptr) return missing_parameter(path, path + " is required");
  if (!given->is_object()) return wrong_type(path, "an object", *given);
  const json::object& object = given->get_object();

  const std::string name_path = at_key(path, "name");
  const json::value* name = member(object, "name");
  if (name == nullptr) return missing_parameter(name_path, name_path + " is required");
  if (!name->is_string()) return wrong_type(name_path, "a string", *name);
  if (!is_format_name(view(name->get_string()))) {
    return invalid_value(
        name_path, name_path + " must have 1 to 64 characters out of a-z, A-Z, 0-9, '_' and '-'");
  }
  // The answer always follows the schema, strict or not.
  const json::value* strict = member(object, "strict");
  if (strict != nullptr && !strict->is_bool()) {
    return wrong_type(at_key(path, "strict"), "true or false", *strict);
  }
  const json::value* description = member(object, "description");
  if (description != nullptr && !description->is_string()) {
    return wrong_type(at_key(path, "description"), "a string", *description);
  }
  const std::string schema_path = at_key(path, "schema");
  const json::value* schema = member(object, "schema");
  if (schema == nullptr) return missing_parameter(schema_path, schema_path + " is required");
  return read_schema(*schema, schema_path, out);
}

}  // namespace

Failure read_response_format(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_object()) return wrong_type("response_format", "an object", value);
  const json::object& format = value.get_object();
  const std::string path = "response_format.type";
  const json::value* type = member(format, "type");
  if (type == nullptr) return missing_parameter(path, path + " is required");
  if (!type->is_string()) return wrong_type(path, "a string", *type);
  const std::string_view text = view(type->get_string());
  if (text == "text") return std::nullopt;
  if (text == "json_schema") return read_json_schema(format, out);
  if (text == "json_object") {
    // llama.cpp's and SGLang's form of json_schema.
    if (const json::value* schema = member(format, "schema")) {
      return read_schema(*schema, "response_format.schema", out);
    }
    out.response_format.emplace().json_object = true;
    return std::nullopt;
  }
  return invalid_value(path, path + " must be 'text', 'json_object' or 'json_schema'");
}

}  // namespace bulkhead::api
