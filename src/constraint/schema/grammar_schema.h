// From a client's JSON schema to one that a grammar enforces in full: what the grammar engine would
// pass over is refused by name, what is too big is refused with its limit, and what remains is
// spelled so that the engine reads it as the standard means it.
//
// Threads: pure functions. Invariants: every text of the resulting grammar is valid by the client's
// schema (the grammar may allow less: objects with properties are closed unless the schema says
// otherwise, an enum is a list of texts); total and bounded for any input.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "base/result.h"

namespace bulkhead::constraint {

inline constexpr size_t kGrammarNodesMax = 4'000;        // schemas within the schema
inline constexpr size_t kEnumValuesMax = 1'000;          // of one enum
inline constexpr size_t kPropertiesMax = 500;            // of one object
inline constexpr size_t kOptionalPropertiesMax = 128;    // likewise, of those not required
inline constexpr size_t kAlternativesMax = 64;           // of one anyOf or oneOf
inline constexpr int64_t kPatternsCostMax = 400;         // of all patterns (schema/pattern.h)
inline constexpr size_t kLengthsMax = 64;                // different limits on strings' lengths
inline constexpr int64_t kItemCountMax = 10'000;         // minItems, maxItems and the like
inline constexpr int64_t kStringLengthMax = 10'000'000;  // minLength and maxLength

// Errors: kInvalidArgument or kUnsupported, `field` the place in the schema as a JSON pointer.
base::Result<boost::json::value> schema_for_grammar(std::string_view text);

}  // namespace bulkhead::constraint
