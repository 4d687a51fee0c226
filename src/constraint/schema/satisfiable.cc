#include "constraint/schema/satisfiable.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "constraint/schema/json.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

// A least fixpoint: a reference is finite once its target was found to be.
class Finiteness {
 public:
  explicit Finiteness(const json::value& root) : root_(root) { collect(root); }

  base::Status run() {
    if (refs_.size() > kReferencesMax) {
      return base::invalid_argument(
          {}, fmt::format("the schema refers to {} places; the limit is {}", refs_.size(),
                          kReferencesMax));
    }
    // A pass without a change ends it, and each pass settles at least one reference.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [ref, finite] : refs_) {
        if (finite) continue;
        const json::value* target = resolve_pointer(root_, ref);
        finite = target != nullptr && is_finite(*target);
        changed = changed || finite;
      }
    }
    if (is_finite(root_)) return {};
    return base::invalid_argument(
        {}, "infinite recursion: every value of this schema would have to contain itself");
  }

 private:
  void collect(const json::value& value) {
    if (value.is_array()) {
      for (const json::value& part : value.get_array()) collect(part);
    }
    if (!value.is_object()) return;
    for (const auto& entry : value.get_object()) {
      if (entry.key() == "$ref" && entry.value().is_string()) {
        refs_.emplace(std::string(view(entry.value().get_string())), false);
      }
      collect(entry.value());
    }
  }

  bool is_finite(const json::value& schema) const {
    if (!schema.is_object()) return true;
    const json::object& node = schema.get_object();
    if (const json::value* ref = node.if_contains("$ref")) {
      const auto found = refs_.find(std::string(view(ref->get_string())));
      return found != refs_.end() && found->second;
    }
    for (const char* name : {"anyOf", "oneOf"}) {
      if (const json::value* parts = node.if_contains(name)) return any_finite(*parts);
    }
    if (const json::value* parts = node.if_contains("allOf")) {
      return is_finite(parts->get_array()[0]);
    }
    const json::value* type = node.if_contains("type");
    // A value of another type does without the parts of an object or array.
    if (type != nullptr && type->is_array() && type->get_array().size() > 1) return true;
    return object_is_finite(node) && array_is_finite(node);
  }

  bool any_finite(const json::value& schemas) const {
    for (const json::value& schema : schemas.get_array()) {
      if (is_finite(schema)) return true;
    }
    return false;
  }

  bool object_is_finite(const json::object& node) const {
    const json::value* required = node.if_contains("required");
    if (required == nullptr) return true;
    for (const json::value& name : required->get_array()) {
      if (!is_finite(node.at("properties").at(name.get_string()))) return false;
    }
    return true;
  }

  bool array_is_finite(const json::object& node) const {
    size_t prefix = 0;
    if (const json::value* schemas = node.if_contains("prefixItems")) {
      prefix = schemas->get_array().size();
      for (const json::value& schema : schemas->get_array()) {
        if (!is_finite(schema)) return false;
      }
    }
    const json::value* count = node.if_contains("minItems");
    const json::value* items = node.if_contains("items");
    if (count == nullptr || items == nullptr) return true;
    return static_cast<size_t>(count->get_int64()) <= prefix || is_finite(*items);
  }

  const json::value& root_;
  std::map<std::string, bool> refs_;
};

}  // namespace

base::Status check_satisfiable(const json::value& root) { return Finiteness(root).run(); }

}  // namespace bulkhead::constraint
