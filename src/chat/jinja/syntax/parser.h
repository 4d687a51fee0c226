// Tokens -> abstract syntax tree.
//
// Threads: pure function.
// Invariants: recursion is bounded by `max_depth` nested blocks and expressions together (beyond:
// kResourceExhausted); what jinja2 rejects at compile time is rejected here, with its line; tags
// that need other templates (include, import, extends) are refused by name.
#pragma once

#include <cstdint>
#include <string_view>

#include "chat/jinja/syntax/ast.h"

namespace bulkhead::chat::jinja {

// Constants of the tree live in `heap`.
TemplateAst parse_template(std::string_view source, uint32_t max_depth, Heap& heap);

}  // namespace bulkhead::chat::jinja
