// Readers of what a request says about itself rather than about its answer.
#include <fmt/format.h>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/refusals.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

Failure read_name(const json::value& value, std::string_view path,
                  std::optional<std::string>& out) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view id = view(value.get_string());
  if (!is_request_id(id)) {
    return invalid_value(std::string(path),
                         fmt::format("{} must have 1 to {} characters out of letters, digits, "
                                     "'-', '_', '.' and ':'",
                                     path, kRequestIdMax));
  }
  out = std::string(id);
  return std::nullopt;
}

}  // namespace

bool is_request_id(std::string_view id) {
  if (id.empty() || id.size() > kRequestIdMax) return false;
  for (const char c : id) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '-' && c != '_' && c != '.' && c != ':') return false;
  }
  return true;
}

Failure read_request_id(json::value& value, const DecodeContext&, RequestFields& out) {
  return read_name(value, "request_id", out.request_id);
}

Failure read_rid(json::value& value, const DecodeContext&, RequestFields& out) {
  return read_name(value, "rid", out.rid);
}

Failure read_cache_salt(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_string()) return wrong_type("cache_salt", "a string", value);
  const std::string_view salt = view(value.get_string());
  if (salt.empty() || salt.size() > kCacheSaltMax) {
    return invalid_value("cache_salt", fmt::format("cache_salt must have 1 to {} bytes, but it has "
                                                   "{}",
                                                   kCacheSaltMax, salt.size()));
  }
  out.cache_salt = std::string(salt);
  return std::nullopt;
}

Failure read_options(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_object()) return wrong_type("options", "an object", value);
  const json::value* flag = value.get_object().if_contains("rejectIfBusy");
  if (flag == nullptr || flag->is_null()) return std::nullopt;
  return read_bool(*flag, "options.rejectIfBusy", out.reject_if_busy);
}

Failure read_service_tier(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_string()) return wrong_type("service_tier", "a string", value);
  out.service_tier = true;
  return std::nullopt;
}

}  // namespace bulkhead::api
