// What the request's tools say about the types of their arguments, for formats that write values
// without types.
//
// Threads: immutable after construction.
// Invariants: any JSON is taken for a schema; looking into one ends within a fixed depth.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace bulkhead::chat {

// JSON types that a schema allows; none: it does not say.
enum class JsonType : uint8_t {
  kString = 1,
  kNumber = 2,  // integers too
  kBoolean = 4,
  kNull = 8,
  kArray = 16,
  kObject = 32,
};
using JsonTypes = uint8_t;

constexpr bool allows(JsonTypes types, JsonType type) {
  return (types & static_cast<JsonTypes>(type)) != 0;
}

class ToolSchemas {
 public:
  ToolSchemas() = default;
  // `tools` as in a chat request, or null.
  explicit ToolSchemas(const boost::json::value& tools);

  bool has(std::string_view function) const { return parameters_.contains(function); }
  // Types of one argument.
  JsonTypes types_of(std::string_view function, std::string_view argument) const;

 private:
  std::map<std::string, boost::json::object, std::less<>> parameters_;
};

// An argument as models spell it to JSON: text where the types allow text alone or where it is no
// JSON of an allowed type, and else the JSON that it is.
std::string typed_value(std::string_view text, JsonTypes types);

}  // namespace bulkhead::chat
