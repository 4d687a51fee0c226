// Tools as text in the form of TypeScript declarations, which Kimi K2.5 and later were trained on.
//
// Threads: pure functions. Invariant: equal to what the checkpoint's own tokenizer code writes.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>

namespace bulkhead::chat {

// `value` with the members of every object in the order of their names.
boost::json::value sorted_deeply(const boost::json::value& value);

// `tools` as in a chat request, sorted. Nothing where a schema has what the form cannot say; the
// template then writes the tools as JSON.
std::optional<std::string> typescript_declarations(const boost::json::array& tools);

}  // namespace bulkhead::chat
