// A specification in the form that the grammar engine compiles, and the key under which equal
// specifications share their result.
//
// Threads: pure functions. Invariants: schemas were checked and rewritten before they are part of
// the result (schema/grammar_schema.h); the literals are split at control tokens, which become
// exactly those tokens.
#pragma once

#include <string>

#include "base/result.h"
#include "constraint/vocabulary.h"
#include "wire/constraint.h"

namespace bulkhead::constraint {

// White space in a row between the parts of a JSON text: enough for an indented answer, too little
// for a model to lose itself in.
inline constexpr int kWhitespaceMax = 24;
inline constexpr size_t kToolsMax = 128;
inline constexpr size_t kLiteralBytesMax = 256;

// The engine's "structural tag", a JSON text. Errors as schema_for_grammar(); `field` begins with
// "schema" or "tools[2]".
base::Result<std::string> structural_tag(const wire::ConstraintSpec& spec,
                                         const Vocabulary& vocabulary);

std::string spec_key(const wire::ConstraintSpec& spec);

}  // namespace bulkhead::constraint
