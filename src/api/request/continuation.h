// Prompts that end inside the last message, so that the answer goes on with it.
//
// Threads: pure functions. Invariant: nothing but what the template wrote after the message is cut.
#pragma once

#include <string_view>

#include "chat/prompt.h"

namespace bulkhead::api {

// Cuts what follows the last message, whose content is `content`. False, and nothing cut, where the
// template does not end its untrusted text with that content (it may lack white space at its end).
bool end_inside_message(chat::Prompt& prompt, std::string_view content);

}  // namespace bulkhead::api
