// Whether a JSON value is a schema that is understood here in full, and the patterns in it.
//
// Threads: pure function. Invariants: total; every part that could be reached while validating is
// checked, references included; an error names the place as a JSON pointer.
#pragma once

#include <boost/json/value.hpp>
#include <map>
#include <string>

#include "base/result.h"
#include "constraint/schema/pattern.h"

namespace bulkhead::constraint {

inline constexpr int64_t kSchemaNodesMax = 20'000;  // subschemas, counted where they stand

using Patterns = std::map<std::string, Pattern, std::less<>>;

// Errors: kInvalidArgument for what is no schema or beyond a limit, kUnsupported for a keyword, a
// pattern or a reference that is not understood; `field` is the place.
base::Result<Patterns> check_schema(const boost::json::value& root);

}  // namespace bulkhead::constraint
