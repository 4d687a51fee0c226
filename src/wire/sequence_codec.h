// A sequence's state as bytes, for a handoff between processes.
//
// Threads: pure functions. Invariants: what decode_sequence() returns keeps every rule of
// SequenceState and SamplingParams, whatever the bytes were; id and slot do not travel, since they
// belong to the process; a constraint travels as the word that there is one.
#pragma once

#include "base/result.h"
#include "wire/bytes.h"
#include "wire/sequence_state.h"

namespace bulkhead::wire {

// What the receiving side can take.
struct SequenceBounds {
  int32_t vocabulary_size = 0;
  int32_t context_tokens = 0;
};

struct DecodedSequence {
  SequenceState state;
  bool constrained = false;  // its constraint has to be put back by whoever knows it
};

void encode_sequence(const SequenceState& state, ByteWriter& out);
// Errors: kCorruptData for bytes that are no state, or one that breaks a rule.
base::Result<DecodedSequence> decode_sequence(ByteReader& in, const SequenceBounds& bounds);

}  // namespace bulkhead::wire
