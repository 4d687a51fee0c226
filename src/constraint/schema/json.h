// JSON values as schemas compare and name them.
//
// Threads: pure functions. Invariant: parsing bounds depth and size before memory is spent.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace bulkhead::constraint {

inline constexpr size_t kSchemaBytesMax = 256 * 1024;
inline constexpr int kSchemaDepthMax = 64;

inline std::string_view view(const boost::json::string& text) {
  return std::string_view(text.data(), text.size());
}
inline boost::json::string_view json_view(std::string_view text) {
  return boost::json::string_view(text.data(), text.size());
}

// The whole of `text` as one JSON value.
base::Result<boost::json::value> parse_json(std::string_view text, size_t bytes_max);

// Compact text; numbers as Boost.JSON spells them.
std::string json_text(const boost::json::value& value);

// Equal as JSON values: 1 and 1.0 are, the order of keys is no matter. Takes the number of values
// compared off `budget`; below zero the answer is worth nothing.
bool json_equal(const boost::json::value& a, const boost::json::value& b, int64_t& budget);

std::optional<double> number_of(const boost::json::value& value);
// A number without a fraction, however it is spelled.
bool is_whole(const boost::json::value& value);

// "#/$defs/User~1x" -> what it points at inside `root`; null when there is nothing.
const boost::json::value* resolve_pointer(const boost::json::value& root, std::string_view ref);
// One step of a JSON pointer, escaped: "/a~1b".
std::string pointer_step(std::string_view key);

}  // namespace bulkhead::constraint
