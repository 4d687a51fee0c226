#include "model/fields.h"

#include <fmt/format.h>

#include <boost/json/stream_parser.hpp>
#include <cmath>

namespace bulkhead::model {
namespace {

// The value as a number, if it is one.
std::optional<double> as_number(const FieldValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

bool absent(const FieldValue& value) { return std::holds_alternative<std::monostate>(value); }

}  // namespace

base::Error Fields::refuse(std::string_view key, std::string_view why) const {
  return base::corrupt(fmt::format("{}: {}: {}", where_, key, why));
}

base::Error Fields::unsupported(std::string_view key, std::string_view why) const {
  return base::unsupported(fmt::format("{}: {}: {}", where_, key, why));
}

bool Fields::has(std::string_view key) const { return !absent(find(key)); }

base::Result<int32_t> Fields::dimension(std::string_view key, int32_t max) const {
  const FieldValue value = find(key);
  if (absent(value)) return refuse(key, "missing");
  const auto* whole = std::get_if<int64_t>(&value);
  if (whole == nullptr || *whole < 1 || *whole > max) {
    return refuse(key, fmt::format("must be a whole number from 1 to {}", max));
  }
  return static_cast<int32_t>(*whole);
}

base::Result<int32_t> Fields::dimension_or(std::string_view key, int32_t max,
                                           int32_t fallback) const {
  if (!has(key)) return fallback;
  return dimension(key, max);
}

base::Result<int32_t> Fields::count_or(std::string_view key, int32_t max, int32_t fallback) const {
  const FieldValue value = find(key);
  if (absent(value)) return fallback;
  const auto* whole = std::get_if<int64_t>(&value);
  if (whole == nullptr || *whole < 0 || *whole > max) {
    return refuse(key, fmt::format("must be a whole number from 0 to {}", max));
  }
  return static_cast<int32_t>(*whole);
}

base::Result<double> Fields::number(std::string_view key, NumberRange range) const {
  const FieldValue value = find(key);
  if (absent(value)) return refuse(key, "missing");
  const std::optional<double> number = as_number(value);
  if (!number || !(*number >= range.min && *number <= range.max)) {
    return refuse(key, fmt::format("must be a number from {} to {}", range.min, range.max));
  }
  return *number;
}

base::Result<double> Fields::number_or(std::string_view key, NumberRange range,
                                       double fallback) const {
  if (!has(key)) return fallback;
  return number(key, range);
}

base::Result<bool> Fields::flag_or(std::string_view key, bool fallback) const {
  const FieldValue value = find(key);
  if (absent(value)) return fallback;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return refuse(key, "must be true or false");
}

base::Result<std::string> Fields::text_or(std::string_view key, std::string_view fallback) const {
  const FieldValue value = find(key);
  if (absent(value)) return std::string(fallback);
  if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  return refuse(key, "must be a string");
}

const boost::json::value* JsonFields::value(std::string_view key) const {
  const boost::json::value* found =
      object_.if_contains(boost::json::string_view(key.data(), key.size()));
  return found == nullptr || found->is_null() ? nullptr : found;
}

FieldValue JsonFields::find(std::string_view key) const {
  const boost::json::value* found = value(key);
  if (found == nullptr) return std::monostate{};
  if (found->is_bool()) return found->get_bool();
  if (found->is_int64()) return found->get_int64();
  if (found->is_uint64()) return static_cast<double>(found->get_uint64());
  if (found->is_double()) return found->get_double();
  if (found->is_string()) {
    const boost::json::string& text = found->get_string();
    return std::string_view(text.data(), text.size());
  }
  return NotScalar{};
}

base::Result<std::optional<JsonFields>> JsonFields::object(std::string_view key) const {
  const boost::json::value* found = value(key);
  if (found == nullptr) return std::optional<JsonFields>{};
  if (!found->is_object()) return refuse(key, "must be an object");
  return std::optional<JsonFields>(std::in_place, fmt::format("{}: {}", where(), key),
                                   found->get_object());
}

base::Result<boost::json::object> parse_json_object(std::string_view name, std::string_view text) {
  boost::json::error_code ec;
  boost::json::stream_parser parser;
  const size_t used = parser.write_some(text.data(), text.size(), ec);
  if (!ec && used < text.size()) ec = make_error_code(boost::json::error::extra_data);
  if (!ec) parser.finish(ec);
  if (ec) return base::corrupt(fmt::format("{}: byte {}: {}", name, used, ec.message()));
  boost::json::value document = parser.release();
  if (!document.is_object()) {
    return base::corrupt(fmt::format("{}: byte 0: must be a JSON object", name));
  }
  return std::move(document.get_object());
}

}  // namespace bulkhead::model
