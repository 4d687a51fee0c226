// The keywords that speak of arrays and objects.
#include <fmt/format.h>

#include "constraint/schema/evaluation.h"
#include "constraint/schema/json.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

std::string_view key_of(const json::key_value_pair& entry) {
  return std::string_view(entry.key().data(), entry.key().size());
}

double count_or(const json::object& schema, std::string_view keyword, double otherwise) {
  const json::value* value = schema.if_contains(json_view(keyword));
  return value == nullptr ? otherwise : *number_of(*value);
}

}  // namespace

bool Evaluation::prefix_items(const Node& node, const json::value& rule) {
  if (!node.value.is_array()) return true;
  const json::array& values = node.value.get_array();
  const json::array& schemas = rule.get_array();
  for (size_t i = 0; i < std::min(values.size(), schemas.size()); ++i) {
    if (!check_part(schemas[i], values[i], fmt::format("/{}", i))) return false;
    if (node.seen != nullptr) node.seen->mark(i, values.size());
  }
  return true;
}

bool Evaluation::items(const Node& node, const json::value& rule) {
  if (!node.value.is_array()) return true;
  const json::array& values = node.value.get_array();
  const json::value* prefix = node.schema.if_contains("prefixItems");
  for (size_t i = prefix == nullptr ? 0 : prefix->get_array().size(); i < values.size(); ++i) {
    if (!check_part(rule, values[i], fmt::format("/{}", i))) return false;
    if (node.seen != nullptr) node.seen->mark(i, values.size());
  }
  return true;
}

bool Evaluation::contains(const Node& node, const json::value& rule) {
  if (!node.value.is_array()) return true;
  const json::array& values = node.value.get_array();
  double count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (matches(rule, values[i], nullptr)) {
      count += 1;
      if (node.seen != nullptr) node.seen->mark(i, values.size());
    }
    if (exhausted_) return false;
  }
  if (count < count_or(node.schema, "minContains", 1)) {
    return fail("contains: too few items match");
  }
  return count <= count_or(node.schema, "maxContains", count) ||
         fail("maxContains: too many items match");
}

bool Evaluation::min_items(const Node& node, const json::value& rule) {
  if (!node.value.is_array()) return true;
  return static_cast<double>(node.value.get_array().size()) >= *number_of(rule) ||
         fail("minItems: there are fewer items than " + json_text(rule));
}

bool Evaluation::max_items(const Node& node, const json::value& rule) {
  if (!node.value.is_array()) return true;
  return static_cast<double>(node.value.get_array().size()) <= *number_of(rule) ||
         fail("maxItems: there are more items than " + json_text(rule));
}

bool Evaluation::unique_items(const Node& node, const json::value& rule) {
  if (!node.value.is_array() || !rule.get_bool()) return true;
  const json::array& values = node.value.get_array();
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (json_equal(values[i], values[k], work_left_)) {
        return fail("uniqueItems: two items are equal");
      }
      if (!spend(0)) return false;
    }
  }
  return true;
}

bool Evaluation::unevaluated_items(const Node& node, const json::value& rule) {
  if (!node.value.is_array()) return true;
  const json::array& values = node.value.get_array();
  for (size_t i = 0; i < values.size(); ++i) {
    if (node.seen->has(i)) continue;
    if (!check_part(rule, values[i], fmt::format("/{}", i))) return false;
    node.seen->mark(i, values.size());
  }
  return true;
}

bool Evaluation::properties(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  const json::object& object = node.value.get_object();
  size_t index = 0;
  for (const auto& entry : object) {
    const size_t at = index++;
    const json::value* schema = rule.get_object().if_contains(entry.key());
    if (!spend(1)) return false;
    if (schema == nullptr) continue;
    if (!check_part(*schema, entry.value(), pointer_step(key_of(entry)))) return false;
    if (node.seen != nullptr) node.seen->mark(at, object.size());
  }
  return true;
}

bool Evaluation::pattern_properties(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  const json::object& object = node.value.get_object();
  for (const auto& schema : rule.get_object()) {
    const Pattern& key_pattern = patterns_.find(key_of(schema))->second;
    size_t index = 0;
    for (const auto& entry : object) {
      const size_t at = index++;
      if (!spend(1 + static_cast<int64_t>(entry.key().size()))) return false;
      if (!key_pattern.found_in(key_of(entry))) continue;
      if (!check_part(schema.value(), entry.value(), pointer_step(key_of(entry)))) return false;
      if (node.seen != nullptr) node.seen->mark(at, object.size());
    }
  }
  return true;
}

bool Evaluation::additional_properties(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  const json::object& object = node.value.get_object();
  const json::value* named = node.schema.if_contains("properties");
  const json::value* patterned = node.schema.if_contains("patternProperties");
  size_t index = 0;
  for (const auto& entry : object) {
    const size_t at = index++;
    if (!spend(1)) return false;
    if (named != nullptr && named->get_object().contains(entry.key())) continue;
    bool matched = false;
    if (patterned != nullptr) {
      for (const auto& schema : patterned->get_object()) {
        if (!spend(1 + static_cast<int64_t>(entry.key().size()))) return false;
        matched = matched || patterns_.find(key_of(schema))->second.found_in(key_of(entry));
      }
    }
    if (matched) continue;
    if (!check_part(rule, entry.value(), pointer_step(key_of(entry)))) return false;
    if (node.seen != nullptr) node.seen->mark(at, object.size());
  }
  return true;
}

bool Evaluation::property_names(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  for (const auto& entry : node.value.get_object()) {
    const json::value name(json::string_view(entry.key().data(), entry.key().size()));
    if (!check_part(rule, name, pointer_step(key_of(entry)))) return false;
  }
  return true;
}

bool Evaluation::required(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  for (const json::value& name : rule.get_array()) {
    if (!spend(1)) return false;
    if (!node.value.get_object().contains(name.get_string())) {
      return fail(fmt::format("required: {} is missing", json_text(name)));
    }
  }
  return true;
}

bool Evaluation::min_properties(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  return static_cast<double>(node.value.get_object().size()) >= *number_of(rule) ||
         fail("minProperties: there are fewer than " + json_text(rule));
}

bool Evaluation::max_properties(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  return static_cast<double>(node.value.get_object().size()) <= *number_of(rule) ||
         fail("maxProperties: there are more than " + json_text(rule));
}

bool Evaluation::dependent_required(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  for (const auto& entry : rule.get_object()) {
    if (!spend(1)) return false;
    if (node.value.get_object().contains(entry.key()) && !required(node, entry.value())) {
      return false;
    }
  }
  return true;
}

bool Evaluation::dependent_schemas(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  for (const auto& entry : rule.get_object()) {
    if (!spend(1)) return false;
    if (!node.value.get_object().contains(entry.key())) continue;
    if (!check(entry.value(), node.value, node.seen)) return false;
  }
  return true;
}

bool Evaluation::unevaluated_properties(const Node& node, const json::value& rule) {
  if (!node.value.is_object()) return true;
  const json::object& object = node.value.get_object();
  size_t index = 0;
  for (const auto& entry : object) {
    const size_t at = index++;
    if (node.seen->has(at)) continue;
    if (!check_part(rule, entry.value(), pointer_step(key_of(entry)))) return false;
    node.seen->mark(at, object.size());
  }
  return true;
}

}  // namespace bulkhead::constraint
