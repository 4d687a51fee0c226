// Readers of what a request says about the model's reasoning.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/refusals.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

Failure read_effort(const json::value& value, const std::string& path, std::string& out) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view text = view(value.get_string());
  if (std::find(kEfforts.begin(), kEfforts.end(), text) == kEfforts.end()) {
    return invalid_value(path, path + " must be none, minimal, low, medium, high, xhigh or max");
  }
  out = text;
  return std::nullopt;
}

// {"type": "enabled" | "disabled"}; "adaptive" leaves it to the template.
Failure read_type(const json::value& value, const std::string& path, ThinkingWish& out) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view text = view(value.get_string());
  if (text == "enabled" || text == "disabled") {
    out.enabled = text == "enabled";
    return std::nullopt;
  }
  if (text == "adaptive" || text == "auto") return std::nullopt;
  return invalid_value(path, path + " must be enabled, disabled, auto or adaptive");
}

// Kimi says which reasoning to keep, GLM whether to clear it.
Failure read_keep(const json::object& thinking, ThinkingWish& out) {
  if (const json::value* keep = thinking.if_contains("keep"); keep && !keep->is_null()) {
    const std::string path = "thinking.keep";
    if (keep->is_bool()) {
      out.keep = keep->get_bool();
    } else if (keep->is_string() && keep->get_string() == "all") {
      out.keep = true;
    } else {
      return invalid_value(path, path + " must be \"all\", a boolean or null");
    }
  }
  if (const json::value* clear = thinking.if_contains("clear_thinking");
      clear && !clear->is_null()) {
    bool value = false;
    if (Failure failure = read_bool(*clear, "thinking.clear_thinking", value)) return failure;
    out.keep = !value;
  }
  return std::nullopt;
}

}  // namespace

Failure read_reasoning_effort(json::value& value, const DecodeContext&, RequestFields& out) {
  return read_effort(value, "reasoning_effort", out.reasoning_effort);
}

Failure read_thinking(json::value& value, const DecodeContext&, RequestFields& out) {
  if (value.is_bool()) {
    out.thinking.enabled = value.get_bool();
    return std::nullopt;
  }
  if (!value.is_object()) return wrong_type("thinking", "an object or a boolean", value);
  const json::object& thinking = value.get_object();
  if (const json::value* type = thinking.if_contains("type"); type && !type->is_null()) {
    if (Failure failure = read_type(*type, "thinking.type", out.thinking)) return failure;
  }
  if (const json::value* effort = thinking.if_contains("effort"); effort && !effort->is_null()) {
    if (Failure failure = read_effort(*effort, "thinking.effort", out.thinking.effort)) {
      return failure;
    }
  }
  return read_keep(thinking, out.thinking);
}

}  // namespace bulkhead::api
