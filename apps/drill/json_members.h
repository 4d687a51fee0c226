// Members of JSON that others wrote: what is not there, or of another type, reads as nothing.
//
// Threads: pure functions.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace bulkhead::apps {

inline const boost::json::value* member(const boost::json::value* value, std::string_view name) {
  return value != nullptr && value->is_object() ? value->as_object().if_contains(name) : nullptr;
}

inline std::string text_of(const boost::json::value* value) {
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

inline bool is_true(const boost::json::value* value) {
  return value != nullptr && value->is_bool() && value->as_bool();
}

// A whole number of at least 0; 0 for anything else.
inline uint64_t count_of(const boost::json::value* value) {
  if (value == nullptr) return 0;
  if (value->is_uint64()) return value->as_uint64();
  return value->is_int64() && value->as_int64() > 0 ? static_cast<uint64_t>(value->as_int64()) : 0;
}

// The elements of an array, or none.
inline const boost::json::array& elements_of(const boost::json::value* value) {
  static const boost::json::array kNone;
  return value != nullptr && value->is_array() ? value->as_array() : kNone;
}

}  // namespace bulkhead::apps
