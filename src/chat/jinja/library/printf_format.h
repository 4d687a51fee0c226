// str % arguments and str.format(...), as far as templates need them.
//
// Threads: as the heap. Invariants: text of the format keeps its marks, inserted strings keep
// theirs, formatted numbers are untrusted; widths are bounded by the string limit.
#pragma once

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

Value printf_format(Heap& heap, const Value& format, const Value& arguments);
Value brace_format(Interpreter& interpreter, const Value& format, const Arguments& arguments);

}  // namespace bulkhead::chat::jinja
