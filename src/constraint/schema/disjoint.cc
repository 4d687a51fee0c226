#include "constraint/schema/disjoint.h"

#include <algorithm>

#include "constraint/schema/json.h"
#include "constraint/schema/keywords.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

constexpr int kReferencesFollowed = 16;
constexpr size_t kValuesCompared = 64;  // of each side

// Follows references to the object behind them; null where there is none.
const json::object* behind(const json::value& schema, const json::value& root) {
  const json::value* at = &schema;
  for (int i = 0; i < kReferencesFollowed; ++i) {
    if (at == nullptr || !at->is_object()) return nullptr;
    const json::value* ref = at->get_object().if_contains("$ref");
    if (ref == nullptr) return &at->get_object();
    at = resolve_pointer(root, view(ref->get_string()));
  }
  return nullptr;
}

// Every type that values of the schema may have.
uint8_t types_of(const json::object& node) {
  const json::value* type = node.if_contains("type");
  if (type == nullptr) return kEveryType;
  if (type->is_string()) return type_bits(view(type->get_string()));
  uint8_t types = 0;
  for (const json::value& name : type->get_array()) {
    types = static_cast<uint8_t>(types | type_bits(view(name.get_string())));
  }
  return types;
}

// The values that the schema lists; nothing where it does not.
const json::array* listed(const json::object& node) {
  const json::value* values = node.if_contains("enum");
  return values != nullptr ? &values->get_array() : nullptr;
}

bool differ(const json::value& a, const json::value& b) {
  int64_t budget = 1000;
  return !json_equal(a, b, budget) && budget >= 0;
}

bool lists_differ(const json::object& a, const json::object& b) {
  const json::value* const_a = a.if_contains("const");
  const json::value* const_b = b.if_contains("const");
  const json::array one_a = const_a != nullptr ? json::array(1, *const_a) : json::array();
  const json::array one_b = const_b != nullptr ? json::array(1, *const_b) : json::array();
  const json::array* list_a = const_a != nullptr ? &one_a : listed(a);
  const json::array* list_b = const_b != nullptr ? &one_b : listed(b);
  if (list_a == nullptr || list_b == nullptr) return false;
  if (std::max(list_a->size(), list_b->size()) > kValuesCompared) return false;
  return std::all_of(list_a->begin(), list_a->end(), [&](const json::value& left) {
    return std::all_of(list_b->begin(), list_b->end(),
                       [&](const json::value& right) { return differ(left, right); });
  });
}

bool requires_name(const json::object& node, const json::value& name) {
  const json::value* required = node.if_contains("required");
  if (required == nullptr) return false;
  const json::array& names = required->get_array();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Both are objects with a property that tells them apart.
bool discriminated(const json::object& a, const json::object& b, const json::value& root) {
  if (types_of(a) != kObjectBit || types_of(b) != kObjectBit) return false;
  const json::value* properties_a = a.if_contains("properties");
  const json::value* properties_b = b.if_contains("properties");
  const json::value* required = a.if_contains("required");
  if (properties_a == nullptr || properties_b == nullptr || required == nullptr) return false;
  for (const json::value& name : required->get_array()) {
    if (!requires_name(b, name)) continue;
    const json::value* left = properties_a->get_object().if_contains(name.get_string());
    const json::value* right = properties_b->get_object().if_contains(name.get_string());
    if (left == nullptr || right == nullptr) continue;
    const json::object* left_node = behind(*left, root);
    const json::object* right_node = behind(*right, root);
    if (left_node == nullptr || right_node == nullptr) continue;
    if ((types_of(*left_node) & types_of(*right_node)) == 0) return true;
    if (lists_differ(*left_node, *right_node)) return true;
  }
  return false;
}

}  // namespace

bool surely_disjoint(const json::value& a, const json::value& b, const json::value& root) {
  const json::object* left = behind(a, root);
  const json::object* right = behind(b, root);
  if (left == nullptr || right == nullptr) return false;
  if ((types_of(*left) & types_of(*right)) == 0) return true;
  return lists_differ(*left, *right) || discriminated(*left, *right, root);
}

}  // namespace bulkhead::constraint
