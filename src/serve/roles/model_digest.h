// A name for a model that every process of a deployment computes alike from its own checkpoint.
//
// Threads: pure function. Invariants: quantised copies of one model have the same digest, because
// prefill and decode may run on different ones; other weights, another shape or another tokenizer
// have another. It finds mistakes, not enemies.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "model/checkpoint.h"

namespace bulkhead::serve::roles {

base::Result<std::array<uint8_t, 32>> model_digest(const model::Checkpoint& checkpoint);

}  // namespace bulkhead::serve::roles
