// Whether two schemas are seen at a glance to have no value in common: then `oneOf` says no more
// than `anyOf`.
//
// Threads: pure function. Invariant: true only when it is certain.
#pragma once

#include <boost/json/value.hpp>

namespace bulkhead::constraint {

// By their types, by the values they list, or by a property that both require and that differs.
// `root` is what references are looked up in.
bool surely_disjoint(const boost::json::value& a, const boost::json::value& b,
                     const boost::json::value& root);

}  // namespace bulkhead::constraint
