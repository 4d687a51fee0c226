// json.dumps, as transformers' tojson filter calls it.
//
// Threads: as the heap. Invariants: insertion order, no HTML escapes; strings keep their marks
// (escapes take the mark of the character they stand for), punctuation and numbers are untrusted;
// fails for values JSON has no form for.
#pragma once

#include <string>

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multi_line = false;  // an indent was given
  Str indent;               // one level of it
  Str item_separator;
  Str key_separator;
};

void dump_json(Heap& heap, StringBuilder& out, const Value& value, const JsonStyle& style,
               uint32_t depth = 0);

}  // namespace bulkhead::chat::jinja
