// A format's tool calls as a grammar: what a model that must call has to write.
//
// Threads: pure functions. Invariant: what the grammar allows, the format's parser reads as calls.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "chat/output/tool_format.h"
#include "wire/constraint.h"

namespace bulkhead::chat {

// `tools` as in a chat request, checked; `only`: the one function that may be called, empty: any.
// The format is not kNone.
wire::ToolCallsGrammar tool_calls_grammar(ToolFormat format, const boost::json::array& tools,
                                          std::string_view only, bool parallel);

}  // namespace bulkhead::chat
