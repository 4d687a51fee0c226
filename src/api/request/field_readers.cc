#include "api/request/field_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "api/request/json_input.h"
#include "api/request/refusals.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

Failure read_stop_string(const json::value& value, std::string_view path, RequestFields& out) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view text = view(value.get_string());
  if (text.empty()) {
    return invalid_value(std::string(path), fmt::format("{} must not be an empty string", path));
  }
  if (text.size() > kStopBytesMax) {
    return invalid_value(std::string(path),
                         fmt::format("{} may have at most {} bytes, but it has {}", path,
                                     kStopBytesMax, text.size()));
  }
  out.stop.emplace_back(text);
  return std::nullopt;
}

}  // namespace

Failure wrong_type(std::string_view path, std::string_view wanted, const json::value& given) {
  return invalid_type(std::string(path), fmt::format("{} must be {}, but {} was given", path,
                                                     wanted, describe(given)));
}

Failure too_many(std::string_view path, size_t limit, size_t given) {
  return invalid_value(
      std::string(path),
      fmt::format("{} may have at most {} entries, but {} were given", path, limit, given));
}

Failure read_number(const json::value& value, std::string_view path, const NumberRule& rule,
                    double& out) {
  double number = 0;
  if (value.is_double()) {
    number = value.get_double();
  } else if (value.is_int64()) {
    number = static_cast<double>(value.get_int64());
  } else if (value.is_uint64()) {
    number = static_cast<double>(value.get_uint64());
  } else {
    return wrong_type(path, "a number", value);
  }
  const bool low = rule.above_min ? number <= rule.min : number < rule.min;
  if (!std::isfinite(number) || low || number > rule.max) {
    return invalid_value(std::string(path),
                         fmt::format("{} must be {} {} and at most {}, but {} was given", path,
                                     rule.above_min ? "greater than" : "at least", rule.min,
                                     rule.max, describe(value)));
  }
  out = number;
  return std::nullopt;
}

Failure read_integer(const json::value& value, std::string_view path, int64_t min, int64_t max,
                     int64_t& out) {
  // Doubles hold every whole number up to here exactly.
  constexpr double kExactMax = 9007199254740992.0;
  const auto outside = [&]() -> Failure {
    return invalid_value(std::string(path),
                         fmt::format("{} must be at least {} and at most {}, but {} was given",
                                     path, min, max, describe(value)));
  };
  int64_t number = 0;
  if (value.is_int64()) {
    number = value.get_int64();
  } else if (value.is_uint64()) {
    return outside();  // the parser uses uint64 only above 2^63 - 1
  } else if (value.is_double()) {
    const double given = value.get_double();
    if (!std::isfinite(given) || std::abs(given) > kExactMax) return outside();
    if (given != std::trunc(given)) return wrong_type(path, "a whole number", value);
    number = static_cast<int64_t>(given);
  } else {
    return wrong_type(path, "a whole number", value);
  }
  if (number < min || number > max) return outside();
  out = number;
  return std::nullopt;
}

Failure read_bool(const json::value& value, std::string_view path, bool& out) {
  if (!value.is_bool()) return wrong_type(path, "true or false", value);
  out = value.get_bool();
  return std::nullopt;
}

Failure read_token_id(const json::value& value, std::string_view path, const DecodeContext& context,
                      wire::TokenId& out) {
  int64_t id = 0;
  if (Failure failure = read_integer(value, path, 0, context.vocabulary_size - 1, id)) {
    return failure;
  }
  out = static_cast<wire::TokenId>(id);
  return std::nullopt;
}

Failure read_model(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_string()) return wrong_type("model", "a string", value);
  out.model = std::string(view(value.get_string()));
  return std::nullopt;
}

Failure read_stop(json::value& value, const DecodeContext&, RequestFields& out) {
  if (value.is_string()) return read_stop_string(value, "stop", out);
  if (!value.is_array()) return wrong_type("stop", "a string or an array of strings", value);
  const json::array& array = value.get_array();
  if (array.size() > kStopStringsMax) return too_many("stop", kStopStringsMax, array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    if (Failure failure = read_stop_string(array[i], at_index("stop", i), out)) return failure;
  }
  return std::nullopt;
}

Failure read_stop_token_ids(json::value& value, const DecodeContext& context, RequestFields& out) {
  if (!value.is_array()) return wrong_type("stop_token_ids", "an array of token ids", value);
  const json::array& array = value.get_array();
  if (array.size() > kStopTokenIdsMax) {
    return too_many("stop_token_ids", kStopTokenIdsMax, array.size());
  }
  for (size_t i = 0; i < array.size(); ++i) {
    wire::TokenId id = 0;
    if (Failure failure = read_token_id(array[i], at_index("stop_token_ids", i), context, id)) {
      return failure;
    }
    out.stop_token_ids.push_back(id);
  }
  return std::nullopt;
}

Failure read_logit_bias(json::value& value, const DecodeContext& context, RequestFields& out) {
  if (!value.is_object()) return wrong_type("logit_bias", "an object", value);
  const json::object& object = value.get_object();
  if (object.size() > kLogitBiasMax) return too_many("logit_bias", kLogitBiasMax, object.size());
  constexpr double kBiasMax = 100;
  constexpr NumberRule kFinite{-std::numeric_limits<double>::max(),
                               std::numeric_limits<double>::max(), false, nullptr};
  for (const auto& entry : object) {
    const std::string_view key(entry.key().data(), entry.key().size());
    wire::TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    // The plain spelling only, so that no two keys mean the same id.
    if (error != std::errc() || end != key.data() + key.size() || id < 0 ||
        id >= context.vocabulary_size || fmt::format("{}", id) != key) {
      return invalid_value("logit_bias",
                           fmt::format("logit_bias has a key that is no token id: ids are whole "
                                       "numbers from 0 to {}",
                                       context.vocabulary_size - 1));
    }
    double bias = 0;
    if (Failure failure = read_number(entry.value(), at_key("logit_bias", key), kFinite, bias)) {
      return failure;
    }
    bias = std::clamp(bias, -kBiasMax, kBiasMax);  // beyond this nothing changes
    out.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return std::nullopt;
}

Failure read_stream_options(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_object()) return wrong_type("stream_options", "an object", value);
  out.stream_options = true;
  const auto read = [&value](std::string_view name, std::optional<bool>& to) -> Failure {
    const json::value* flag =
        value.get_object().if_contains(json::string_view(name.data(), name.size()));
    if (flag == nullptr || flag->is_null()) return std::nullopt;
    return read_bool(*flag, at_key("stream_options", name), to.emplace());
  };
  if (Failure failure = read("include_usage", out.include_usage)) return failure;
  return read("continuous_usage_stats", out.continuous_usage_stats);
}

Failure read_chat_template_kwargs(json::value& value, const DecodeContext&, RequestFields& out) {
  if (!value.is_object()) return wrong_type("chat_template_kwargs", "an object", value);
  for (const std::string_view name :
       {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (value.get_object().contains(json::string_view(name.data(), name.size()))) {
      return invalid_value(
          at_key("chat_template_kwargs", name),
          fmt::format("chat_template_kwargs must not set {}: the server does", name));
    }
  }
  out.chat_template_kwargs = std::move(value.get_object());
  return std::nullopt;
}

}  // namespace bulkhead::api
