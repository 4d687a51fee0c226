// JSON as people read it, and changes to a document that leave the rest of it as it stands.
//
// Threads: pure functions. Invariants: json_text() reads back as the same value, members in their
// order. The others take a valid document whose root is an object; every byte they need not touch
// stays, numbers among them (a parser would round some). A name is what its escapes stand for, and
// of members of one name the last one is the member, as readers take it.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace bulkhead::model::write {

// Two spaces a level, lists of plain values on one line, a line break at the end.
std::string json_text(const boost::json::value& value);

// Without any member of that name; `inside` names the member of the root whose object is meant,
// empty: the root itself.
std::string without_member(std::string document, std::string_view inside, std::string_view name);
// With it as the last one, in an object that has no such member. An error where `inside` is no
// object.
base::Result<std::string> with_member(std::string document, std::string_view inside,
                                      std::string_view name, const boost::json::value& value);

}  // namespace bulkhead::model::write
