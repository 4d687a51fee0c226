// Arithmetic, comparison and slicing of values.
//
// Threads: as the heap. Invariant: results and refusals are Python's; integers beyond 128 bits are
// refused instead of growing.
#pragma once

#include "chat/jinja/syntax/ast.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

Value arithmetic(Heap& heap, ArithmeticOp op, const Value& left, const Value& right);
Value signed_value(const Value& value, bool negative);
bool compare_values(Heap& heap, CompareOp op, const Value& left, const Value& right);

struct SliceBounds {
  Value start;  // none where left out
  Value stop;
  Value step;
};
Value slice(Heap& heap, const Value& value, const SliceBounds& bounds);

// `count` copies of a string, list or tuple.
Value repeat(Heap& heap, const Value& value, Int count);

}  // namespace bulkhead::chat::jinja
