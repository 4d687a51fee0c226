// Chat messages: checked, and brought into the one form that chat templates expect.
//
// Threads: pure functions. Invariants: after `read_messages` every message is an object with a role
// of system, user, assistant or tool and a string content; text parts are joined by line breaks;
// `developer` has become `system`; JSON objects in tool-call arguments are objects, not text.
#pragma once

#include "api/request/field_readers.h"

namespace bulkhead::api {

FieldReader read_messages;

}  // namespace bulkhead::api
