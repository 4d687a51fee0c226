// Whether a schema has any finite value at all: one that must contain itself has none, and its
// grammar would never end.
//
// Threads: pure function. Invariant: work is bounded by the size of the schema times the number of
// its references.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>

#include "base/result.h"

namespace bulkhead::constraint {

inline constexpr size_t kReferencesMax = 200;  // different ones

// For schemas that schema_for_grammar() wrote.
base::Status check_satisfiable(const boost::json::value& root);

}  // namespace bulkhead::constraint
