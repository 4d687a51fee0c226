// The keywords of JSON schema draft 2020-12 that are known here: what their values look like and
// which instances they speak of.
//
// Threads: the table is constant. Invariant: a keyword that is neither here nor in the standard is
// no part of a schema and is ignored; one of the standard that is missing here is refused by name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace bulkhead::constraint {

// What the value of a keyword has to be.
enum class Shape : uint8_t {
  kSchema,
  kSchemas,     // array of at least one schema
  kSchemaMap,   // object of schemas
  kPatternMap,  // likewise, its keys are patterns
  kType,        // name of a type, or an array of at least one
  kValues,      // array of any values
  kAnything,
  kNumber,
  kPositive,  // number above 0
  kCount,     // whole number, at least 0
  kString,
  kPattern,
  kStrings,     // array of strings, each once
  kStringsMap,  // object of those
  kBoolean,
  kReference,
  kDialect,  // a draft of json-schema.org
  kUnsupported,
};

// Types of instances as bits; a number that is whole is an integer too.
enum TypeBit : uint8_t {
  kNullBit = 1,
  kBooleanBit = 2,
  kIntegerBit = 4,
  kNumberBit = 8,  // those with a fraction, next to kIntegerBit
  kStringBit = 16,
  kArrayBit = 32,
  kObjectBit = 64,
};
inline constexpr uint8_t kEveryType = 127;
inline constexpr uint8_t kNumeric = kIntegerBit | kNumberBit;

struct Keyword {
  std::string_view name;
  Shape shape = Shape::kAnything;
  uint8_t types = kEveryType;  // instances it can refuse
};

std::span<const Keyword> keywords();
const Keyword* find_keyword(std::string_view name);
// "object" -> kObjectBit, "number" -> kNumeric; 0: no such type.
uint8_t type_bits(std::string_view name);

}  // namespace bulkhead::constraint
