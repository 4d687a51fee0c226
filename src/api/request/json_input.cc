#include "api/request/json_input.h"

#include <fmt/format.h>

#include <boost/json/stream_parser.hpp>

namespace bulkhead::api {
namespace {

namespace json = boost::json;

ApiError invalid_json(std::string message) {
  return invalid_request("invalid_json", {}, std::move(message));
}

// An upper bound on the values in `text`: one per bracket and comma outside strings.
size_t count_values(std::string_view text) {
  size_t count = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',' || c == '[' || c == '{') {
      ++count;
    }
  }
  return count;
}

}  // namespace

Failure parse_object(std::string_view text, json::object& out) {
  if (count_values(text) > kJsonValuesMax) {
    return invalid_json(
        fmt::format("the body holds more than {} JSON values, the limit", kJsonValuesMax));
  }
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  json::stream_parser parser({}, options);
  json::error_code error;
  const size_t consumed = parser.write_some(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  if (error == json::error::too_deep) {
    return invalid_json(
        fmt::format("the body is nested deeper than {} levels, the limit", kJsonDepthMax));
  }
  if (error) {
    return invalid_json(
        fmt::format("the body is not valid JSON: {} at byte {}", error.message(), consumed));
  }
  if (text.find_first_not_of(" \t\r\n", consumed) != std::string_view::npos) {
    return invalid_json(fmt::format("the body is not valid JSON: extra data at byte {}", consumed));
  }
  json::value value = parser.release();
  if (!value.is_object()) {
    return invalid_json("the body must be a JSON object, but it is " + describe(value));
  }
  out = std::move(value.get_object());
  return std::nullopt;
}

std::string describe(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case json::kind::int64:
      return fmt::format("the number {}", value.get_int64());
    case json::kind::uint64:
      return fmt::format("the number {}", value.get_uint64());
    case json::kind::double_:
      return fmt::format("the number {}", value.get_double());
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "something else";
}

std::string at_index(std::string_view path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

std::string at_key(std::string_view path, std::string_view key) {
  return fmt::format("{}.{}", path, key);
}

}  // namespace bulkhead::api
