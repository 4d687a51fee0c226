// The filters, tests, methods and globals a template can name.
//
// Threads: the tables are constant; the functions run inside one render.
// Invariants: entries are sorted by name; a function fails with RenderError where Python raises.
#pragma once

#include <string_view>

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

struct FilterEntry {
  std::string_view name;
  NativeFunction function;
};

struct TestEntry {
  std::string_view name;
  bool (*function)(Interpreter&, const Value& value, const Arguments& arguments);
};

// Null when there is none of that name.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);

// obj.name for the types that have methods; false when the type has no such attribute. Attributes
// the sandbox forbids (mutating methods, underscores) are found, but undefined.
bool find_attribute(Heap& heap, const Value& object, std::string_view name, Value& out);

}  // namespace bulkhead::chat::jinja
