// Chats of one's own with the answer that is wanted, such as the held-out sets of models/tiny-moe.
//
// Threads: pure functions, total on every answer.
#pragma once

#include <string>

#include "apps/eval/question.h"
#include "apps/eval/tasks/catalog.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

struct WantedAnswer {
  std::string content;
  std::vector<ToolCall> calls;
};

// Calls count by name and arguments as JSON, in their order; an answer that begins with "####" by
// what stands behind the last "####"; one that begins with "{" as JSON; others by their text.
bool is_right(const WantedAnswer& wanted, const Reply& reply);

// eval/conversations/SET.jsonl, each line {"id", "messages", "tools", "expected"}; `expected` is
// the message that is wanted, and `tools` may be absent.
base::Result<Task> load_conversations(const LoadOptions& options);

}  // namespace bulkhead::apps::eval
