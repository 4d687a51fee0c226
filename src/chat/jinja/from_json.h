// JSON -> template values.
//
// Threads: as the heap. Invariants: every string of the result is untrusted and valid UTF-8 (an
// invalid byte becomes U+FFFD); nesting beyond kMaxValueDepth is refused.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

Value from_json(Heap& heap, const boost::json::value& json, uint32_t depth = 0);

}  // namespace bulkhead::chat::jinja
