#include "constraint/schema/keywords.h"

namespace bulkhead::constraint {
namespace {

constexpr Keyword kKeywords[] = {
    {"$ref", Shape::kReference, kEveryType},
    {"$defs", Shape::kSchemaMap, 0},
    {"definitions", Shape::kSchemaMap, 0},
    {"$schema", Shape::kDialect, 0},
    {"$id", Shape::kString, 0},
    {"description", Shape::kString, 0},
    {"title", Shape::kString, 0},
    {"type", Shape::kType, kEveryType},
    {"enum", Shape::kValues, kEveryType},
    {"const", Shape::kAnything, kEveryType},
    {"allOf", Shape::kSchemas, kEveryType},
    {"anyOf", Shape::kSchemas, kEveryType},
    {"oneOf", Shape::kSchemas, kEveryType},
    {"not", Shape::kSchema, kEveryType},
    {"if", Shape::kSchema, kEveryType},
    {"then", Shape::kSchema, kEveryType},
    {"else", Shape::kSchema, kEveryType},
    {"minimum", Shape::kNumber, kNumeric},
    {"maximum", Shape::kNumber, kNumeric},
    {"exclusiveMinimum", Shape::kNumber, kNumeric},
    {"exclusiveMaximum", Shape::kNumber, kNumeric},
    {"multipleOf", Shape::kPositive, kNumeric},
    {"minLength", Shape::kCount, kStringBit},
    {"maxLength", Shape::kCount, kStringBit},
    {"pattern", Shape::kPattern, kStringBit},
    {"format", Shape::kString, kStringBit},
    {"prefixItems", Shape::kSchemas, kArrayBit},
    {"items", Shape::kSchema, kArrayBit},
    {"contains", Shape::kSchema, kArrayBit},
    {"minContains", Shape::kCount, kArrayBit},
    {"maxContains", Shape::kCount, kArrayBit},
    {"minItems", Shape::kCount, kArrayBit},
    {"maxItems", Shape::kCount, kArrayBit},
    {"uniqueItems", Shape::kBoolean, kArrayBit},
    {"unevaluatedItems", Shape::kSchema, kArrayBit},
    {"properties", Shape::kSchemaMap, kObjectBit},
    {"patternProperties", Shape::kPatternMap, kObjectBit},
    {"additionalProperties", Shape::kSchema, kObjectBit},
    {"propertyNames", Shape::kSchema, kObjectBit},
    {"required", Shape::kStrings, kObjectBit},
    {"minProperties", Shape::kCount, kObjectBit},
    {"maxProperties", Shape::kCount, kObjectBit},
    {"dependentRequired", Shape::kStringsMap, kObjectBit},
    {"dependentSchemas", Shape::kSchemaMap, kObjectBit},
    {"unevaluatedProperties", Shape::kSchema, kObjectBit},
    {"$dynamicRef", Shape::kUnsupported, kEveryType},
    {"$dynamicAnchor", Shape::kUnsupported, kEveryType},
    {"$recursiveRef", Shape::kUnsupported, kEveryType},
    {"$recursiveAnchor", Shape::kUnsupported, kEveryType},
};

struct TypeName {
  std::string_view name;
  uint8_t bits;
};
constexpr TypeName kTypes[] = {
    {"null", kNullBit},     {"boolean", kBooleanBit}, {"integer", kIntegerBit},
    {"number", kNumeric},   {"string", kStringBit},   {"array", kArrayBit},
    {"object", kObjectBit},
};

}  // namespace

std::span<const Keyword> keywords() { return kKeywords; }

const Keyword* find_keyword(std::string_view name) {
  for (const Keyword& keyword : kKeywords) {
    if (keyword.name == name) return &keyword;
  }
  return nullptr;
}

uint8_t type_bits(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) return type.bits;
  }
  return 0;
}

}  // namespace bulkhead::constraint
