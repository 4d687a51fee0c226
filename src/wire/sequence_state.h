// All there is to know about a sequence besides its cache pages: what prefill hands to decode.
//
// Threads: plain value, owned by whoever runs the sequence. Invariants: tokens = prompt, then every
// generated token, with room for the longest answer; the first `written` tokens have their K and V
// in the cache; the state of sampling is a function of this alone (no hidden generator state).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "wire/generate.h"
#include "wire/pools.h"

namespace bulkhead::wire {

struct SequenceState {
  RequestId id = 0;
  Slot slot = 0;
  SamplingParams sampling;
  int32_t max_tokens = 0;
  int32_t min_tokens = 0;
  std::vector<TokenId> stop_ids;
  std::vector<TokenId> tokens;
  int32_t prompt_tokens = 0;
  int32_t written = 0;

  SequenceState() = default;
  SequenceState(GenerateRequest&& request, Slot owner_slot)
      : id(request.id),
        slot(owner_slot),
        sampling(std::move(request.sampling)),
        max_tokens(request.max_tokens),
        min_tokens(request.min_tokens),
        stop_ids(std::move(request.stop_ids)),
        tokens(std::move(request.prompt)),
        prompt_tokens(static_cast<int32_t>(tokens.size())) {
    tokens.reserve(tokens.size() + static_cast<size_t>(max_tokens));
  }
  SequenceState(SequenceState&&) noexcept = default;
  SequenceState& operator=(SequenceState&&) noexcept = default;

  std::span<const TokenId> prompt() const {
    return std::span(tokens).first(static_cast<size_t>(prompt_tokens));
  }
  std::span<const TokenId> generated() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_tokens));
  }
  std::span<const TokenId> unwritten() const {
    return std::span(tokens).subspan(static_cast<size_t>(written));
  }
};

}  // namespace bulkhead::wire
