#include "constraint/schema/json.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/stream_parser.hpp>
#include <charconv>
#include <cmath>

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

bool numbers_equal(const json::value& a, const json::value& b) {
  if (a.is_int64() && b.is_int64()) return a.get_int64() == b.get_int64();
  if (a.is_uint64() && b.is_uint64()) return a.get_uint64() == b.get_uint64();
  return *number_of(a) == *number_of(b);
}

bool objects_equal(const json::object& a, const json::object& b, int64_t& budget) {
  if (a.size() != b.size()) return false;
  for (const auto& entry : a) {
    const json::value* other = b.if_contains(entry.key());
    if (other == nullptr || !json_equal(entry.value(), *other, budget)) return false;
  }
  return true;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (high && low) {
        out += static_cast<char>(*high * 16 + *low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

std::string unescaped(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      out += step[++i] == '0' ? '~' : '/';
    } else {
      out += step[i];
    }
  }
  return out;
}

const json::value* child(const json::value& value, const std::string& step) {
  if (value.is_object()) return value.get_object().if_contains(json_view(step));
  if (!value.is_array()) return nullptr;
  size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  const bool plain = error == std::errc() && end == step.data() + step.size() &&
                     (step.size() == 1 || step[0] != '0');
  return plain ? value.get_array().if_contains(index) : nullptr;
}

}  // namespace

base::Result<json::value> parse_json(std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return base::invalid_argument(
        {}, fmt::format("it has {} bytes; the limit is {}", text.size(), bytes_max));
  }
  json::parse_options options;
  options.max_depth = kSchemaDepthMax;
  json::stream_parser parser({}, options);
  json::error_code error;
  parser.write(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  if (error == json::error::too_deep) {
    return base::invalid_argument(
        {}, fmt::format("it is nested deeper than {} levels, the limit", kSchemaDepthMax));
  }
  if (error) return base::invalid_argument({}, "it is not valid JSON: " + error.message());
  return parser.release();
}

std::string json_text(const json::value& value) { return json::serialize(value); }

std::optional<double> number_of(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double()) return value.get_double();
  return std::nullopt;
}

bool is_whole(const json::value& value) {
  if (value.is_int64() || value.is_uint64()) return true;
  return value.is_double() && std::isfinite(value.get_double()) &&
         std::trunc(value.get_double()) == value.get_double();
}

bool json_equal(const json::value& a, const json::value& b, int64_t& budget) {
  if (--budget < 0) return false;
  if (a.is_number() && b.is_number()) return numbers_equal(a, b);
  if (a.kind() != b.kind()) return false;
  if (a.is_object()) return objects_equal(a.get_object(), b.get_object(), budget);
  if (!a.is_array()) return a == b;
  const json::array& left = a.get_array();
  const json::array& right = b.get_array();
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!json_equal(left[i], right[i], budget)) return false;
  }
  return true;
}

const json::value* resolve_pointer(const json::value& root, std::string_view ref) {
  if (ref.empty() || ref[0] != '#') return nullptr;
  const std::string pointer = percent_decoded(ref.substr(1));
  if (!pointer.empty() && pointer[0] != '/') return nullptr;
  const json::value* at = &root;
  for (size_t start = 0; start < pointer.size() && at != nullptr;) {
    const size_t end = std::min(pointer.find('/', start + 1), pointer.size());
    at = child(*at, unescaped(std::string_view(pointer).substr(start + 1, end - start - 1)));
    start = end;
  }
  return at;
}

std::string pointer_step(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace bulkhead::constraint
