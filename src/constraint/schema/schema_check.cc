#include "constraint/schema/schema_check.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "constraint/schema/json.h"
#include "constraint/schema/keywords.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

class Check {
 public:
  explicit Check(const json::value& root) : root_(root) {}

  base::Status schema(const json::value& value) {
    if (--nodes_left_ < 0)
      return refuse(fmt::format("the schema has more than {} parts", kSchemaNodesMax));
    if (value.is_bool()) return {};
    if (!value.is_object()) return refuse("a schema must be an object or a boolean");
    for (const auto& entry : value.get_object()) {
      const std::string_view name(entry.key().data(), entry.key().size());
      const Keyword* keyword = find_keyword(name);
      if (keyword == nullptr) continue;
      Step step(*this, pointer_step(name));
      BH_TRY(shape(*keyword, entry.value()));
    }
    return {};
  }

  Patterns patterns;

 private:
  // A step down for as long as it lives.
  class Step {
   public:
    Step(Check& check, const std::string& step) : check_(check), length_(check.path_.size()) {
      check_.path_ += step;
    }
    ~Step() { check_.path_.resize(length_); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Check& check_;
    const size_t length_;
  };

  base::Error refuse(std::string message) const {
    return base::invalid_argument(path_, std::move(message));
  }
  base::Status require(bool holds, const char* wanted) const {
    if (holds) return {};
    return refuse(fmt::format("it must be {}", wanted));
  }

  base::Status shape(const Keyword& keyword, const json::value& value) {
    switch (keyword.shape) {
      case Shape::kSchema:
        return schema(value);
      case Shape::kSchemas:
        return schemas(value);
      case Shape::kSchemaMap:
      case Shape::kPatternMap:
        return schema_map(value, keyword.shape == Shape::kPatternMap);
      case Shape::kType:
        return type(value);
      case Shape::kValues:
        return require(value.is_array(), "an array");
      case Shape::kAnything:
        return {};
      case Shape::kNumber:
        return require(value.is_number(), "a number");
      case Shape::kPositive:
        return require(value.is_number() && *number_of(value) > 0, "a number above 0");
      case Shape::kCount:
        return require(is_whole(value) && *number_of(value) >= 0, "a whole number, 0 or more");
      case Shape::kString:
        if (keyword.name == "$id" && path_ != "/$id") return inner_id(value);
        return require(value.is_string(), "a string");
      case Shape::kPattern:
        BH_TRY(require(value.is_string(), "a string"));
        return pattern(view(value.get_string()));
      case Shape::kStrings:
        return strings(value);
      case Shape::kStringsMap:
        return strings_map(value);
      case Shape::kBoolean:
        return require(value.is_bool(), "true or false");
      case Shape::kReference:
        return reference(value);
      case Shape::kDialect:
        BH_TRY(require(value.is_string(), "a string"));
        // Schemas of earlier drafts are read as of this one; other dialects may mean anything.
        if (view(value.get_string()).find("://json-schema.org/") != std::string_view::npos)
          return {};
        return unsupported("only the dialects of json-schema.org are supported");
      case Shape::kUnsupported:
        return unsupported(fmt::format("{} is not supported", keyword.name));
    }
    return {};
  }

  base::Error unsupported(std::string message) const {
    return {base::ErrorCode::kUnsupported, std::move(message), path_};
  }

  base::Status inner_id(const json::value& value) {
    BH_TRY(require(value.is_string(), "a string"));
    return unsupported("$id is supported at the root only");
  }

  base::Status schemas(const json::value& value) {
    BH_TRY(
        require(value.is_array() && !value.get_array().empty(), "an array of schemas, not empty"));
    for (size_t i = 0; i < value.get_array().size(); ++i) {
      Step step(*this, fmt::format("/{}", i));
      BH_TRY(schema(value.get_array()[i]));
    }
    return {};
  }

  base::Status schema_map(const json::value& value, bool keys_are_patterns) {
    BH_TRY(require(value.is_object(), "an object of schemas"));
    for (const auto& entry : value.get_object()) {
      const std::string_view key(entry.key().data(), entry.key().size());
      Step step(*this, pointer_step(key));
      if (keys_are_patterns) BH_TRY(pattern(key));
      BH_TRY(schema(entry.value()));
    }
    return {};
  }

  base::Status type(const json::value& value) {
    const char* wanted =
        "one of null, boolean, integer, number, string, array and object, or an array of them";
    const auto known = [](const json::value& name) {
      return name.is_string() && type_bits(view(name.get_string())) != 0;
    };
    if (!value.is_array()) return require(known(value), wanted);
    BH_TRY(require(!value.get_array().empty(), wanted));
    for (const json::value& name : value.get_array()) BH_TRY(require(known(name), wanted));
    return {};
  }

  base::Status pattern(std::string_view text) {
    if (patterns.find(text) != patterns.end()) return {};
    base::Result<Pattern> compiled = Pattern::compile(text);
    if (!compiled.ok()) {
      base::Error error = std::move(compiled).error();
      error.field = path_;
      return error;
    }
    patterns.emplace(std::string(text), std::move(compiled).value());
    return {};
  }

  base::Status strings(const json::value& value) {
    BH_TRY(require(value.is_array(), "an array of strings"));
    std::set<std::string_view> seen;
    for (const json::value& text : value.get_array()) {
      BH_TRY(require(text.is_string(), "an array of strings"));
      BH_TRY(require(seen.insert(view(text.get_string())).second, "an array of different strings"));
    }
    return {};
  }

  base::Status strings_map(const json::value& value) {
    BH_TRY(require(value.is_object(), "an object of arrays of strings"));
    for (const auto& entry : value.get_object()) BH_TRY(strings(entry.value()));
    return {};
  }

  base::Status reference(const json::value& value) {
    BH_TRY(require(value.is_string(), "a string"));
    const std::string_view ref = view(value.get_string());
    const bool local = ref == "#" || ref.substr(0, 2) == "#/";
    if (!local) return unsupported("only references within the schema (#/...) are supported");
    const json::value* target = resolve_pointer(root_, ref);
    if (target == nullptr) {
      return refuse(fmt::format("there is nothing at {}", ref));
    }
    // Most targets are checked where they stand; one at a place that is no schema is checked here.
    if (!checked_.insert(target).second) return {};
    return schema(*target);
  }

  const json::value& root_;
  std::set<const json::value*> checked_;
  std::string path_;
  int64_t nodes_left_ = kSchemaNodesMax;
};

}  // namespace

base::Result<Patterns> check_schema(const json::value& root) {
  Check check(root);
  BH_TRY(check.schema(root));
  return std::move(check.patterns);
}

}  // namespace bulkhead::constraint
