#include "constraint/schema/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "constraint/schema/json.h"
#include "constraint/schema/keywords.h"

namespace bulkhead::constraint {

namespace json = boost::json;

// In this order: those that look at what their neighbours marked come last.
const Evaluation::RuleEntry Evaluation::kRules[] = {
    {"$ref", &Evaluation::reference},
    {"type", &Evaluation::type},
    {"enum", &Evaluation::enumeration},
    {"const", &Evaluation::constant},
    {"minimum", &Evaluation::minimum},
    {"maximum", &Evaluation::maximum},
    {"exclusiveMinimum", &Evaluation::exclusive_minimum},
    {"exclusiveMaximum", &Evaluation::exclusive_maximum},
    {"multipleOf", &Evaluation::multiple_of},
    {"minLength", &Evaluation::min_length},
    {"maxLength", &Evaluation::max_length},
    {"pattern", &Evaluation::pattern},
    {"minItems", &Evaluation::min_items},
    {"maxItems", &Evaluation::max_items},
    {"uniqueItems", &Evaluation::unique_items},
    {"required", &Evaluation::required},
    {"minProperties", &Evaluation::min_properties},
    {"maxProperties", &Evaluation::max_properties},
    {"dependentRequired", &Evaluation::dependent_required},
    {"prefixItems", &Evaluation::prefix_items},
    {"items", &Evaluation::items},
    {"contains", &Evaluation::contains},
    {"properties", &Evaluation::properties},
    {"patternProperties", &Evaluation::pattern_properties},
    {"additionalProperties", &Evaluation::additional_properties},
    {"propertyNames", &Evaluation::property_names},
    {"allOf", &Evaluation::all_of},
    {"anyOf", &Evaluation::any_of},
    {"oneOf", &Evaluation::one_of},
    {"not", &Evaluation::negation},
    {"if", &Evaluation::condition},
    {"dependentSchemas", &Evaluation::dependent_schemas},
    {"unevaluatedItems", &Evaluation::unevaluated_items},
    {"unevaluatedProperties", &Evaluation::unevaluated_properties},
};

namespace {

uint8_t bits_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNullBit;
    case json::kind::bool_:
      return kBooleanBit;
    case json::kind::int64:
    case json::kind::uint64:
      return kIntegerBit;
    case json::kind::double_:
      return is_whole(value) ? kIntegerBit : kNumberBit;
    case json::kind::string:
      return kStringBit;
    case json::kind::array:
      return kArrayBit;
    case json::kind::object:
      return kObjectBit;
  }
  return 0;
}

int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// -1, 0 or 1; whole numbers exactly.
int compare(const json::value& a, const json::value& b) {
  if (a.is_int64() && b.is_int64()) {
    return a.get_int64() < b.get_int64() ? -1 : a.get_int64() > b.get_int64() ? 1 : 0;
  }
  const double left = *number_of(a);
  const double right = *number_of(b);
  return left < right ? -1 : left > right ? 1 : 0;
}

}  // namespace

void Evaluation::Seen::mark(size_t index, size_t size) {
  if (parts.size() < size) parts.resize(size);
  parts[index] = true;
}

void Evaluation::Seen::merge(const Seen& other) {
  if (parts.size() < other.parts.size()) parts.resize(other.parts.size());
  for (size_t i = 0; i < other.parts.size(); ++i) {
    if (other.parts[i]) parts[i] = true;
  }
}

bool Evaluation::run(const json::value& schema, const json::value& value) {
  return check(schema, value, nullptr);
}

bool Evaluation::spend(int64_t work) {
  work_left_ -= work;
  if (work_left_ < 0) exhausted_ = true;
  return !exhausted_;
}

bool Evaluation::fail(std::string message) {
  if (quiet_ == 0 && violation_.message.empty()) violation_ = {place_, std::move(message)};
  return false;
}

bool Evaluation::check(const json::value& schema, const json::value& value, Seen* seen) {
  if (depth_ >= kValidationDepthMax) exhausted_ = true;
  if (!spend(1)) return false;
  if (schema.is_bool()) return schema.get_bool() || fail("nothing is allowed here");
  const json::object& object = schema.get_object();
  const bool asks = object.contains("unevaluatedItems") || object.contains("unevaluatedProperties");
  Seen own;
  ++depth_;
  const bool valid = check_object({object, value, asks || seen != nullptr ? &own : nullptr}, seen);
  --depth_;
  return valid;
}

bool Evaluation::check_object(const Node& node, Seen* seen) {
  for (const RuleEntry& entry : kRules) {
    const json::value* rule = node.schema.if_contains(json_view(entry.keyword));
    if (rule == nullptr) continue;
    if (!spend(1) || !(this->*entry.rule)(node, *rule)) return false;
  }
  if (seen != nullptr) seen->merge(*node.seen);
  return true;
}

bool Evaluation::matches(const json::value& schema, const json::value& value, Seen* seen) {
  ++quiet_;
  const bool valid = check(schema, value, seen);
  --quiet_;
  return valid;
}

bool Evaluation::check_part(const json::value& schema, const json::value& part,
                            std::string_view step) {
  const size_t length = place_.size();
  if (quiet_ == 0) place_ += step;
  const bool valid = check(schema, part, nullptr);
  place_.resize(length);
  return valid;
}

bool Evaluation::reference(const Node& node, const json::value& rule) {
  const json::value* target = resolve_pointer(root_, view(rule.get_string()));
  return target != nullptr && check(*target, node.value, node.seen);
}

bool Evaluation::type(const Node& node, const json::value& rule) {
  uint8_t allowed = 0;
  if (rule.is_string()) {
    allowed = type_bits(view(rule.get_string()));
  } else {
    for (const json::value& name : rule.get_array()) {
      allowed = static_cast<uint8_t>(allowed | type_bits(view(name.get_string())));
    }
  }
  if ((bits_of(node.value) & allowed) != 0) return true;
  return fail(fmt::format("type: it must be {}", json_text(rule)));
}

bool Evaluation::enumeration(const Node& node, const json::value& rule) {
  for (const json::value& value : rule.get_array()) {
    if (json_equal(value, node.value, work_left_)) return spend(0);
  }
  return fail("enum: it is none of the values listed");
}

bool Evaluation::constant(const Node& node, const json::value& rule) {
  return json_equal(rule, node.value, work_left_) ? spend(0) : fail("const: it is another value");
}

bool Evaluation::all_of(const Node& node, const json::value& rule) {
  for (const json::value& schema : rule.get_array()) {
    if (!check(schema, node.value, node.seen)) return false;
  }
  return true;
}

bool Evaluation::any_of(const Node& node, const json::value& rule) {
  bool any = false;
  for (const json::value& schema : rule.get_array()) {
    // Without anybody to ask what was seen, the first one is enough.
    if (any && node.seen == nullptr) break;
    any = matches(schema, node.value, node.seen) || any;
    if (exhausted_) return false;
  }
  return any || fail("anyOf: it matches none of the schemas");
}

bool Evaluation::one_of(const Node& node, const json::value& rule) {
  int count = 0;
  for (const json::value& schema : rule.get_array()) {
    if (matches(schema, node.value, node.seen)) ++count;
    if (exhausted_) return false;
  }
  return count == 1 || fail(fmt::format("oneOf: it matches {} of the schemas", count));
}

bool Evaluation::negation(const Node& node, const json::value& rule) {
  const bool matched = matches(rule, node.value, nullptr);
  if (exhausted_) return false;
  return !matched || fail("not: it is what it must not be");
}

bool Evaluation::condition(const Node& node, const json::value& rule) {
  const bool holds = matches(rule, node.value, node.seen);
  if (exhausted_) return false;
  const json::value* schema = node.schema.if_contains(holds ? "then" : "else");
  return schema == nullptr || check(*schema, node.value, node.seen);
}

bool Evaluation::minimum(const Node& node, const json::value& rule) {
  if (!node.value.is_number() || compare(node.value, rule) >= 0) return true;
  return fail("minimum: it is less than " + json_text(rule));
}

bool Evaluation::maximum(const Node& node, const json::value& rule) {
  if (!node.value.is_number() || compare(node.value, rule) <= 0) return true;
  return fail("maximum: it is more than " + json_text(rule));
}

bool Evaluation::exclusive_minimum(const Node& node, const json::value& rule) {
  if (!node.value.is_number() || compare(node.value, rule) > 0) return true;
  return fail("exclusiveMinimum: it is not more than " + json_text(rule));
}

bool Evaluation::exclusive_maximum(const Node& node, const json::value& rule) {
  if (!node.value.is_number() || compare(node.value, rule) < 0) return true;
  return fail("exclusiveMaximum: it is not less than " + json_text(rule));
}

bool Evaluation::multiple_of(const Node& node, const json::value& rule) {
  if (!node.value.is_number()) return true;
  bool multiple = false;
  if (node.value.is_int64() && rule.is_int64()) {
    multiple = node.value.get_int64() % rule.get_int64() == 0;
  } else {
    const double quotient = *number_of(node.value) / *number_of(rule);
    // 0.0075 is 75 times 0.0001 although neither is a double exactly.
    multiple = std::isfinite(quotient) ? std::abs(quotient - std::round(quotient)) <=
                                             1e-9 * std::max(1.0, std::abs(quotient))
                                       : std::fmod(*number_of(node.value), *number_of(rule)) == 0.0;
  }
  return multiple || fail("multipleOf: it is no multiple of " + json_text(rule));
}

bool Evaluation::min_length(const Node& node, const json::value& rule) {
  if (!node.value.is_string()) return true;
  const auto length = static_cast<double>(characters(view(node.value.get_string())));
  return length >= *number_of(rule) || fail("minLength: it is shorter than " + json_text(rule));
}

bool Evaluation::max_length(const Node& node, const json::value& rule) {
  if (!node.value.is_string()) return true;
  const auto length = static_cast<double>(characters(view(node.value.get_string())));
  return length <= *number_of(rule) || fail("maxLength: it is longer than " + json_text(rule));
}

bool Evaluation::pattern(const Node& node, const json::value& rule) {
  if (!node.value.is_string()) return true;
  const std::string_view text = view(node.value.get_string());
  if (!spend(static_cast<int64_t>(text.size()))) return false;
  return patterns_.find(view(rule.get_string()))->second.found_in(text) ||
         fail("pattern: it does not match " + json_text(rule));
}

}  // namespace bulkhead::constraint
