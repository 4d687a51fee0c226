// Which format of tool calls and reasoning a checkpoint has, and how one can tell.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "chat/output/tool_format.h"

namespace bulkhead::chat {

struct FormatChoice {
  ToolFormat tools = ToolFormat::kNone;
  std::string tools_reason;  // "the chat template has <arg_key>"
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  std::string reasoning_reason;
};

// From the template's text, and from `has_token`: whether the tokenizer has a token so spelled.
FormatChoice choose_formats(std::string_view chat_template,
                            const std::function<bool(std::string_view)>& has_token);

}  // namespace bulkhead::chat
