// Request bodies as JSON trees, with limits, and words for what was found in them.
//
// Threads: pure functions. Invariants: depth and number of values are bounded before memory is
// spent on them; nothing here throws on any input except when memory runs out.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "api/errors.h"

namespace bulkhead::api {

inline constexpr size_t kJsonDepthMax = 64;
inline constexpr size_t kJsonValuesMax = 2'000'000;

// The whole of `text` as an object; 400 `invalid_json` otherwise, saying where.
Failure parse_object(std::string_view text, boost::json::object& out);

// "a string", "null", "the number 2.5": what was given, for error texts. Never a string's content.
std::string describe(const boost::json::value& value);

inline std::string_view view(const boost::json::string& text) {
  return std::string_view(text.data(), text.size());
}

// JSON path steps: "messages" -> "messages[2]" -> "messages[2].content".
std::string at_index(std::string_view path, size_t index);
std::string at_key(std::string_view path, std::string_view key);

}  // namespace bulkhead::api
