// Whether tool calls are those that a BFCL question wants, by the rules of BFCL's AST check for
// Python.
//
// Threads: pure functions, total on every answer. Invariants: numbers are whole or not as they are
// written (5 and 5.0 differ where a type is asked for, and are equal as values); a text counts
// without blanks, case and ,./-_*^ ; what is not required and not there must be allowed to be.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/eval/question.h"

namespace bulkhead::apps::eval {

struct DecodedCall {
  std::string name;
  boost::json::object arguments;
};

// Calls whose arguments are JSON objects; nothing where one's are not.
std::optional<std::vector<DecodedCall>> decode_calls(const std::vector<ToolCall>& calls);

// A function as the set describes it: name, and parameters with types of BFCL's own names.
using FunctionList = std::vector<boost::json::object>;

// Why this call is not the wanted one ({"name": {"parameter": [allowed values]}}); empty: it is.
std::string call_fault(const boost::json::object& function, const DecodedCall& call,
                       const boost::json::object& wanted);

// Why these calls, in any order, are not the wanted ones; empty: they are.
std::string calls_fault(const FunctionList& functions, const std::vector<DecodedCall>& calls,
                        const std::vector<boost::json::object>& wanted);

// Why a call does not fit any declared function, whatever was wanted: name, required and known
// parameters, types. Empty: it does.
std::string validity_fault(const FunctionList& functions, const std::vector<DecodedCall>& calls);

// "a.b" as "a_b": names as the API allows them.
std::string api_name(const std::string& name);

}  // namespace bulkhead::apps::eval
