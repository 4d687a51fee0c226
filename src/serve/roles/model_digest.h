// A name for a model that every process of a deployment computes alike from its own checkpoint.
//
// Threads: pure function. Invariants: the same checkpoint has the same digest wherever it lies and
// in whatever formats it will be loaded; another configuration, another tokenizer or other weights,
// even where shapes and norms are the same, have another. Weights that `bulkhead quantize` wrote
// count as those they were made of, so that each pool can load a checkpoint in its own format. Of
// each tensor a bounded sample counts: it finds mistakes, not enemies.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/checkpoint.h"

namespace bulkhead::serve::roles {

// Of the weights alone, in 64 hexadecimal digits: what model::kOriginFile holds.
base::Result<std::string> weights_digest(const model::Checkpoint& checkpoint);
base::Result<std::array<uint8_t, 32>> model_digest(const model::Checkpoint& checkpoint);

}  // namespace bulkhead::serve::roles
