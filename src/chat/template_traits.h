// What a checkpoint's chat template wants of conversations with tools, found out by trying it.
//
// Threads: pure functions.
#pragma once

#include <string_view>

#include "chat/template.h"

namespace bulkhead::chat {

struct TemplateTraits {
  // In what form the template takes the arguments of past calls. Text leaves the prompt as the
  // model wrote it, so it goes before where both do.
  bool text_arguments = false;
  bool object_arguments = true;
  bool typescript_tools = false;  // it reads `tools_ts_str`, and sorted tools beside
};

TemplateTraits probe_template(const ChatTemplate& compiled, std::string_view source);

}  // namespace bulkhead::chat
