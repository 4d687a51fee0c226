// Past tool calls as the model's chat template wants them.
//
// Threads: pure functions. Invariant: what is no tool call or result is left as it is.
#pragma once

#include <boost/json/array.hpp>

#include "chat/template_traits.h"

namespace bulkhead::api {

// The arguments of every call in the form that the template takes: an object, or text. Text that is
// no JSON object stays text. `messages` as read_messages() leaves them.
void fit_arguments(boost::json::array& messages, const chat::TemplateTraits& traits);

// Kimi repeats the ids that it reads, and only knows its own, functions.NAME:INDEX: any other is
// replaced, in the call and in its result, by one with an index that counts on. What is its own
// stays, so doing it twice is doing it once.
void use_kimi_ids(boost::json::array& messages);

}  // namespace bulkhead::api
