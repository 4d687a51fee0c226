#include "constraint/schema/grammar_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "constraint/schema/disjoint.h"
#include "constraint/schema/json.h"
#include "constraint/schema/keywords.h"
#include "constraint/schema/pattern.h"
#include "constraint/schema/satisfiable.h"
#include "constraint/schema/validator.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

// Describe, and change nothing.
constexpr std::string_view kAnnotations[] = {
    "title",     "description", "default", "examples", "deprecated", "readOnly",
    "writeOnly", "$comment",    "$schema", "$id",      "$defs",      "definitions"};
// Keywords of the standard that the grammar engine has no rule for.
constexpr std::string_view kBeyondGrammars[] = {"not",
                                                "if",
                                                "then",
                                                "else",
                                                "dependentRequired",
                                                "dependentSchemas",
                                                "contains",
                                                "minContains",
                                                "maxContains",
                                                "propertyNames",
                                                "$dynamicRef",
                                                "$recursiveRef"};

bool is_annotation(std::string_view name) {
  return std::find(std::begin(kAnnotations), std::end(kAnnotations), name) !=
         std::end(kAnnotations);
}

std::string_view key_of(const json::key_value_pair& entry) {
  return std::string_view(entry.key().data(), entry.key().size());
}

class Rewriter {
 public:
  explicit Rewriter(const SchemaValidator& validator) : validator_(validator) {}

  base::Result<json::value> schema(const json::value& value) {
    if (++nodes_ > kGrammarNodesMax) {
      return refuse(fmt::format("the schema has more than {} parts", kGrammarNodesMax));
    }
    if (value.is_bool()) {
      if (value.get_bool()) return json::value(json::object());
      return refuse("false allows nothing");
    }
    const json::object& node = value.get_object();
    BH_TRY(check_keywords(node));
    json::object out;
    BH_TRY(copy_definitions(node, out));
    if (node.contains("$ref")) {
      BH_TRY(alone(node, "$ref"));
      out["$ref"] = node.at("$ref");
    } else if (node.contains("enum") || node.contains("const")) {
      BH_TRY(literals(value, out));
    } else if (const char* choice = choice_of(node)) {
      BH_TRY(alternatives(node, choice, out));
    } else if (node.contains("allOf")) {
      return only_part(node, std::move(out));
    } else {
      BH_TRY(typed(node, out));
    }
    return json::value(std::move(out));
  }

 private:
  class Step {
   public:
    Step(Rewriter& rewriter, const std::string& step)
        : rewriter_(rewriter), length_(rewriter.path_.size()) {
      rewriter_.path_ += step;
    }
    ~Step() { rewriter_.path_.resize(length_); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Rewriter& rewriter_;
    const size_t length_;
  };

  base::Error refuse(std::string message) const {
    return base::invalid_argument(path_, std::move(message));
  }
  base::Error unsupported(std::string message) const {
    return {base::ErrorCode::kUnsupported, std::move(message), path_};
  }

  base::Status check_keywords(const json::object& node) const {
    for (const std::string_view name : kBeyondGrammars) {
      if (node.contains(json_view(name))) {
        return unsupported(fmt::format("{} cannot be enforced and is not supported", name));
      }
    }
    const json::value* unique = node.if_contains("uniqueItems");
    if (unique != nullptr && unique->get_bool()) {
      return unsupported("uniqueItems cannot be enforced and is not supported");
    }
    return {};
  }

  // `name` and annotations only: what else stands there would not be enforced.
  base::Status alone(const json::object& node, std::string_view name) const {
    for (const auto& entry : node) {
      const std::string_view key = key_of(entry);
      if (key == name || is_annotation(key) || find_keyword(key) == nullptr) continue;
      return unsupported(fmt::format("{} is not supported at the same level as {}", key, name));
    }
    return {};
  }

  base::Status copy_definitions(const json::object& node, json::object& out) {
    for (const std::string_view name : {"$defs", "definitions"}) {
      const json::value* definitions = node.if_contains(json_view(name));
      if (definitions == nullptr) continue;
      json::object rewritten;
      Step step(*this, pointer_step(name));
      for (const auto& entry : definitions->get_object()) {
        Step inner(*this, pointer_step(key_of(entry)));
        BH_ASSIGN(rewritten[entry.key()], schema(entry.value()));
      }
      out[json_view(name)] = std::move(rewritten);
    }
    return {};
  }

  static const char* choice_of(const json::object& node) {
    if (node.contains("anyOf")) return "anyOf";
    return node.contains("oneOf") ? "oneOf" : nullptr;
  }

  base::Status alternatives(const json::object& node, const char* name, json::object& out) {
    BH_TRY(alone(node, name));
    json::array rewritten;
    const json::array& given = node.at(name).get_array();
    if (given.size() > kAlternativesMax) {
      return refuse(fmt::format("{} may have at most {} alternatives, but it has {}", name,
                                kAlternativesMax, given.size()));
    }
    rewritten.reserve(given.size());
    Step step(*this, pointer_step(name));
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].is_bool() && !given[i].get_bool()) continue;
      Step inner(*this, fmt::format("/{}", i));
      BH_ASSIGN(json::value part, schema(given[i]));
      rewritten.push_back(std::move(part));
    }
    if (rewritten.empty()) return refuse("none of the alternatives allows anything");
    // The engine proves less than is plain; what is not plain it decides, and warns where it
    // cannot.
    out[all_disjoint(given) ? "anyOf" : name] = std::move(rewritten);
    return {};
  }

  bool all_disjoint(const json::array& schemas) const {
    for (size_t i = 0; i < schemas.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (!surely_disjoint(schemas[i], schemas[k], validator_.root())) return false;
      }
    }
    return true;
  }

  base::Result<json::value> only_part(const json::object& node, json::object out) {
    BH_TRY(alone(node, "allOf"));
    const json::array& parts = node.at("allOf").get_array();
    if (parts.size() > 1) {
      return unsupported("allOf with more than one schema cannot be enforced and is not supported");
    }
    json::array rewritten;
    Step step(*this, "/allOf/0");
    BH_ASSIGN(json::value part, schema(parts[0]));
    rewritten.push_back(std::move(part));
    out["allOf"] = std::move(rewritten);
    return json::value(std::move(out));
  }

  // The listed values, each held against everything else that stands beside the list.
  base::Status literals(const json::value& value, json::object& out) {
    const json::object& node = value.get_object();
    json::array listed;
    if (const json::value* constant = node.if_contains("const")) {
      listed.push_back(*constant);
    } else {
      listed = node.at("enum").get_array();
    }
    if (listed.empty()) return refuse("enum must list at least one value");
    if (listed.size() > kEnumValuesMax) {
      return refuse(fmt::format("enum may list at most {} values, but it lists {}", kEnumValuesMax,
                                listed.size()));
    }
    for (const json::value& literal : listed) {
      BH_ASSIGN(const std::optional<Violation> violation, validator_.validate(value, literal));
      if (violation) {
        return refuse(
            fmt::format("the value {} that is listed is not allowed by what stands beside "
                        "it: {}",
                        json_text(literal).substr(0, 64), violation->message));
      }
    }
    out["enum"] = std::move(listed);
    return {};
  }

  // Everything that goes by the type of the value.
  base::Status typed(const json::object& node, json::object& out) {
    BH_ASSIGN(const uint8_t types, types_of(node));
    if (types == kEveryType) {
      if (const json::value* given = node.if_contains("type")) out["type"] = *given;
      if (!node.contains("type")) return {};
    } else if (const json::value* given = node.if_contains("type")) {
      out["type"] = *given;
    } else {
      out["type"] = name_of(types);
    }
    for (const auto& entry : node) {
      const Keyword* keyword = find_keyword(key_of(entry));
      if (keyword == nullptr || is_annotation(keyword->name) || keyword->name == "type") continue;
      if ((keyword->types & types) == 0) {
        return refuse(fmt::format("{} says nothing of this type", keyword->name));
      }
    }
    if ((types & kNumeric) != 0) BH_TRY(number(node, types, out));
    if ((types & kStringBit) != 0) BH_TRY(string(node, out));
    if ((types & kArrayBit) != 0) BH_TRY(array(node, out));
    if ((types & kObjectBit) != 0) BH_TRY(object(node, out));
    return {};
  }

  // Without `type`, the type that all keywords speak of; several: whoever wrote them has to say.
  base::Result<uint8_t> types_of(const json::object& node) const {
    const json::value* given = node.if_contains("type");
    if (given != nullptr && given->is_string()) return type_bits(view(given->get_string()));
    uint8_t types = 0;
    if (given != nullptr) {
      for (const json::value& name : given->get_array()) {
        types = static_cast<uint8_t>(types | type_bits(view(name.get_string())));
      }
      return types;
    }
    for (const auto& entry : node) {
      const Keyword* keyword = find_keyword(key_of(entry));
      if (keyword == nullptr || keyword->types == 0) continue;
      if (types != 0 && types != keyword->types) {
        return refuse("type is missing, and the keywords speak of more than one");
      }
      types = keyword->types;
    }
    return types == 0 ? kEveryType : types;
  }

  static json::value name_of(uint8_t types) {
    for (const std::string_view name : {"number", "string", "array", "object"}) {
      if (type_bits(name) == types) return json::value(json_view(name));
    }
    return json::value("object");
  }

  base::Status number(const json::object& node, uint8_t types, json::object& out) {
    const bool whole = (types & kNumeric) == kIntegerBit;
    for (const std::string_view name :
         {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
      const json::value* value = node.if_contains(json_view(name));
      if (value == nullptr) continue;
      if (whole && !is_whole(*value)) {
        return refuse(fmt::format("{} of an integer must be a whole number", name));
      }
      out[json_view(name)] = *value;
    }
    const json::value* low = node.if_contains("minimum");
    const json::value* high = node.if_contains("maximum");
    if (low != nullptr && high != nullptr && *number_of(*low) > *number_of(*high)) {
      return refuse("minimum is greater than maximum");
    }
    return {};
  }

  base::Status copy_count(const json::object& node, const char* name, int64_t most,
                          json::object& out) const {
    const json::value* value = node.if_contains(name);
    if (value == nullptr) return {};
    const double count = *number_of(*value);
    if (count > static_cast<double>(most)) {
      return refuse(fmt::format("{} may be at most {}, but it is {}", name, most, count));
    }
    out[name] = static_cast<int64_t>(count);
    return {};
  }

  base::Status copy_range(const json::object& node, const char* low, const char* high, int64_t most,
                          json::object& out) const {
    BH_TRY(copy_count(node, low, most, out));
    BH_TRY(copy_count(node, high, most, out));
    const json::value* from = out.if_contains(low);
    const json::value* to = out.if_contains(high);
    if (from != nullptr && to != nullptr && from->get_int64() > to->get_int64()) {
      return refuse(fmt::format("{} is greater than {}", low, high));
    }
    return {};
  }

  base::Status string(const json::object& node, json::object& out) {
    BH_TRY(copy_range(node, "minLength", "maxLength", kStringLengthMax, out));
    const bool counted = out.contains("minLength") || out.contains("maxLength");
    const json::value* pattern = node.if_contains("pattern");
    if (pattern == nullptr) {
      copy_format(node, counted, out);
      return counted ? count_length(out) : base::Status();
    }
    out["pattern"] = *pattern;
    if (!counted) return count_pattern(out);
    // The engine takes either; a pattern that repeats one character class can hold both.
    const int64_t least = out.contains("minLength") ? out.at("minLength").get_int64() : 0;
    const int64_t most = out.contains("maxLength") ? out.at("maxLength").get_int64() : -1;
    const auto both = pattern_with_length(view(out.at("pattern").get_string()), least, most);
    if (!both)
      return unsupported(
          "pattern together with minLength or maxLength is supported for "
          "one repeated character class only, as in ^[a-z]+$");
    out["pattern"] = *both;
    out.erase("minLength");
    out.erase("maxLength");
    return count_pattern(out);
  }

  // Each state of a pattern is compared with the whole vocabulary when it is compiled.
  base::Status count_pattern(const json::object& out) {
    BH_ASSIGN(const int64_t cost, pattern_cost(view(out.at("pattern").get_string())));
    patterns_cost_ += cost;
    if (patterns_cost_ <= kPatternsCostMax) return {};
    return refuse(fmt::format("the patterns of the schema have more than {} parts together",
                              kPatternsCostMax));
  }

  // As is each kind of string with a limited length.
  base::Status count_length(const json::object& out) {
    const json::value* least = out.if_contains("minLength");
    const json::value* most = out.if_contains("maxLength");
    lengths_.emplace(least == nullptr ? 0 : least->get_int64(),
                     most == nullptr ? -1 : most->get_int64());
    if (lengths_.size() <= kLengthsMax) return {};
    return refuse(
        fmt::format("strings have more than {} different limits on their length", kLengthsMax));
  }

  // An annotation in the standard; the engine prefers it to everything else that is said of a
  // string. Formats whose texts need no escapes in JSON are kept as a service.
  static void copy_format(const json::object& node, bool counted, json::object& out) {
    const json::value* format = node.if_contains("format");
    if (format == nullptr || counted) return;
    const std::string_view name = view(format->get_string());
    for (const std::string_view kept : {"date", "time", "date-time", "uuid", "ipv4", "duration"}) {
      if (name == kept) out["format"] = *format;
    }
  }

  base::Status array(const json::object& node, json::object& out) {
    BH_TRY(copy_range(node, "minItems", "maxItems", kItemCountMax, out));
    if (const json::value* prefix = node.if_contains("prefixItems")) {
      json::array rewritten;
      Step step(*this, "/prefixItems");
      for (size_t i = 0; i < prefix->get_array().size(); ++i) {
        Step inner(*this, fmt::format("/{}", i));
        BH_ASSIGN(json::value part, schema(prefix->get_array()[i]));
        rewritten.push_back(std::move(part));
      }
      out["prefixItems"] = std::move(rewritten);
    }
    const char* rest = node.contains("items") ? "items" : "unevaluatedItems";
    const json::value* items = node.if_contains(rest);
    if (items == nullptr) {
      // The engine closes what is not mentioned, which without prefixItems leaves only [].
      out["items"] = !out.contains("prefixItems");
      return {};
    }
    if (items->is_bool() && !items->get_bool()) {
      out["items"] = false;
      return {};
    }
    Step step(*this, pointer_step(rest));
    BH_ASSIGN(out["items"], schema(*items));
    return {};
  }

  base::Status object(const json::object& node, json::object& out) {
    BH_TRY(copy_range(node, "minProperties", "maxProperties", kItemCountMax, out));
    BH_TRY(properties(node, out));
    BH_TRY(additional(node, out));
    BH_TRY(pattern_properties(node, out));
    const json::value* required = node.if_contains("required");
    const size_t needed = required == nullptr ? 0 : required->get_array().size();
    const json::value* listed = out.if_contains("properties");
    if (listed != nullptr && listed->get_object().size() > needed + kOptionalPropertiesMax) {
      return refuse(fmt::format("an object may have at most {} properties that are not required",
                                kOptionalPropertiesMax));
    }
    if (needed == 0) return {};
    const json::value* named = out.if_contains("properties");
    for (const json::value& name : required->get_array()) {
      if (named == nullptr || !named->get_object().contains(name.get_string())) {
        return refuse(fmt::format("required names {}, which properties does not have",
                                  json_text(name).substr(0, 64)));
      }
    }
    out["required"] = *required;
    return {};
  }

  base::Status properties(const json::object& node, json::object& out) {
    const json::value* given = node.if_contains("properties");
    if (given == nullptr) return {};
    if (given->get_object().size() > kPropertiesMax) {
      return refuse(fmt::format("an object may have at most {} properties, but {} are listed",
                                kPropertiesMax, given->get_object().size()));
    }
    json::object rewritten;
    Step step(*this, "/properties");
    for (const auto& entry : given->get_object()) {
      if (entry.value().is_bool() && !entry.value().get_bool()) continue;  // never there
      Step inner(*this, pointer_step(key_of(entry)));
      BH_ASSIGN(rewritten[entry.key()], schema(entry.value()));
    }
    out["properties"] = std::move(rewritten);
    return {};
  }

  base::Status additional(const json::object& node, json::object& out) {
    const char* name =
        node.contains("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
    const json::value* given = node.if_contains(name);
    const bool named = node.contains("properties") || node.contains("patternProperties");
    if (given == nullptr) {
      out["additionalProperties"] = !named;
      return {};
    }
    if (given->is_bool()) {
      out["additionalProperties"] = given->get_bool();
    } else {
      Step step(*this, pointer_step(name));
      BH_ASSIGN(out["additionalProperties"], schema(*given));
    }
    return {};
  }

  // With one pattern and nothing else there is no question which schema a property goes by.
  base::Status pattern_properties(const json::object& node, json::object& out) {
    const json::value* given = node.if_contains("patternProperties");
    if (given == nullptr) return {};
    const json::value& rest = out.at("additionalProperties");
    if (node.contains("properties") || given->get_object().size() != 1 || !rest.is_bool() ||
        rest.get_bool()) {
      return unsupported(
          "patternProperties is supported with one pattern, without properties and "
          "additionalProperties only");
    }
    json::object rewritten;
    Step step(*this, "/patternProperties");
    for (const auto& entry : given->get_object()) {
      Step inner(*this, pointer_step(key_of(entry)));
      BH_ASSIGN(const int64_t cost, pattern_cost(key_of(entry)));
      patterns_cost_ += cost;
      BH_ASSIGN(rewritten[entry.key()], schema(entry.value()));
    }
    out["patternProperties"] = std::move(rewritten);
    return {};
  }

  const SchemaValidator& validator_;
  std::string path_;
  size_t nodes_ = 0;
  int64_t patterns_cost_ = 0;
  std::set<std::pair<int64_t, int64_t>> lengths_;
};

}  // namespace

base::Result<json::value> schema_for_grammar(std::string_view text) {
  BH_ASSIGN(json::value root, parse_json(text, kSchemaBytesMax));
  BH_ASSIGN(const SchemaValidator validator, SchemaValidator::create(std::move(root)));
  BH_ASSIGN(json::value rewritten, Rewriter(validator).schema(validator.root()));
  BH_TRY(check_satisfiable(rewritten));
  return rewritten;
}

}  // namespace bulkhead::constraint
