// A sequence as a pool runs it, and the one place where a chosen token becomes part of it.
//
// Threads: step thread only. Invariants: pages cover what is written; a sequence that ends has
// emitted exactly its counted tokens, and its pages go with it.
#pragma once

#include <utility>

#include "base/result.h"
#include "kv/page_table.h"
#include "kv/prefix_index.h"
#include "model/decoder.h"
#include "wire/pools.h"
#include "wire/sequence_state.h"

namespace bulkhead::engine {

struct Sequence {
  wire::SequenceState state;
  kv::PageTable pages;
};

// The next `tokens` unwritten tokens as a part of a step; their slots must be covered.
model::SequenceSlice slice_of(const Sequence& sequence, size_t tokens, model::LogitsFor logits);

// Makes what is written known to the prefix index, unless the request asked to be left out. Only
// for a sequence whose logits were finite so far.
void keep_for_reuse(Sequence& sequence, kv::PrefixIndex& index);

enum class Settled {
  kGoesOn,  // the token was emitted, more will follow
  kEnded,   // it was a stop id, or the last token allowed; on_end() was told
  kFailed,  // there was no valid token; on_end() was told
};

// The sequence got all it asked for without generating anything.
void settle_without_token(Sequence& sequence, wire::PoolEvents& events);

// Applies the sampler's choice: the same for the first token and every later one. Stop ids end the
// sequence without being emitted; the length limit ends it after the token.
Settled settle(Sequence& sequence, base::Result<wire::TokenEvent> choice, wire::PoolEvents& events);

}  // namespace bulkhead::engine
